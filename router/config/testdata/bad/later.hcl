upstream "a" {
  base_url         = "https://a.example/v1"
  wires            = ["openai-chat"]
  replay_reasoning = true
}

upstream "cli" {
  command = ["claude", "-p"] # ERROR: upstream.command is not available yet
  wires   = ["anthropic-messages"]
  mode    = "persistent" # ERROR: upstream.mode is not available yet
}

model "m" {
  wires = ["openai-chat", "anthropic-messages", "gemini"] # ERROR: No target speaks gemini
  target "a" {
    translate = "strict"
  }
}

model "n" {
  target "cli" {}
}

upstream "b" {
  base_url = "https://b.example"
  wires    = ["anthropic-messages"]
}

upstream "c" {
  base_url = "https://c.example"
  wires    = ["openai-responses"]
}

model "o" {
  wires = ["openai-chat"]
  target "a" {}
  target "b" {}
  target "c" {} # ERROR: The target speaks none of the model's wires
}

passthrough { # ERROR: passthrough is not available yet
  upstreams = ["a"]
}

state "redis" { # ERROR: Missing url # ERROR: state.kind is not available yet
}
