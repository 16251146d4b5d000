profile = "optarisk" # ERROR: Unknown profile

# The rest is judged by the documented defaults.
upstream "a" {
  base_url = "https://a.example/v1"
  wires    = ["openai-chat"]
  clients  = ["codex"] # ERROR: Unknown client "codex"
}

model "m" {
  target "a" {}
}
