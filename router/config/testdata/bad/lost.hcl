upstreem "a" { # ERROR: Unsupported block type
  base_url = "https://a.example"
}

upstream { # ERROR: Missing name for upstream
  base_url = "https://b.example"
}

state "memory" "x" { # ERROR: Extraneous label for state
}

model "m" {
  target "a" {}
}
