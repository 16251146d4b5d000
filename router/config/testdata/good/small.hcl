upstream "ollama" {
  base_url = "http://localhost:11434"
  wires    = ["openai-chat"]
}

model "*" {
  target "ollama" {}
}
