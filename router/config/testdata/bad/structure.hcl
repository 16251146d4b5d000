profil = "x" # ERROR: Unsupported argument

server {
  listen   = "127.0.0.1:4141"
  lissten  = "127.0.0.1:4141" # ERROR: Unsupported argument
  max_body = "32 megs"        # ERROR: Invalid max_body

  timeout { # ERROR: Unsupported block type
  }
}

server { # ERROR: Duplicate server block
}

auth {
  key "agents" {
    scope  = "inference"
    scope2 = "admin" # ERROR: Unsupported argument
    secret = env("KEY_A")
  }
}

upstream "a" {
  base_url     = "https://a.example/v1"
  wires        = "openai-chat"  # ERROR: Invalid wires
  price_weight = "heavy"        # ERROR: Invalid price_weight
  enabled      = "perhaps"      # ERROR: Invalid enabled
  headers      = ["a"]          # ERROR: Invalid headers
  set          = "x"            # ERROR: Invalid set
  rename       = { a = ["b"] }  # ERROR: Invalid rename
  drop         = [null]         # ERROR: Invalid drop
  timeouts {
    connect    = "10"  # ERROR: Invalid connect
    first_byte = 45    # ERROR: Invalid first_byte
    idle       = [1]   # ERROR: Invalid idle
  }
}

model "m" {
  context_window = 1.5   # ERROR: Invalid context_window
  max_output     = 1e300 # ERROR: Invalid max_output
  defaults       = { top_p = 1e9999 } # ERROR: Invalid defaults
  target "a" {
    modle = "x" # ERROR: Unsupported argument
  }
}
