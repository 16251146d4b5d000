auth {
  key "agents" {
    secret = env("KEY_A")
  }
  issued_keys_file = "keys.json" # WARN: Nobody can issue keys
}

upstream "a" {
  base_url = "https://a.example/v1"
  wires    = ["openai-chat"]
}

model "m" {
  target "a" {}
}
