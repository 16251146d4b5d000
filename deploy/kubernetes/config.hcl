# Beside an agent in its pod: only the pod reaches it. The keys are files of the Secret signalbox-keys.
server {
  listen        = "127.0.0.1:4141"
  drain_timeout = "20s"
}

auth {
  key "agents" {
    secret = file("/etc/signalbox/keys/clients")
    scope  = "inference"
  }
}

upstream "anthropic" {
  base_url = "https://api.anthropic.com"
  wires    = ["anthropic-messages"]
  api_key  = file("/etc/signalbox/keys/anthropic")
}

upstream "openrouter" {
  base_url = "https://openrouter.ai/api/v1"
  wires    = ["anthropic-messages", "openai-chat"]
  api_key  = file("/etc/signalbox/keys/openrouter")
}

model "claude-*" {
  target "anthropic" {}
}

model "sonnet" {
  target "anthropic" {
    model = "claude-sonnet-4-5"
  }
  target "openrouter" {
    model = "anthropic/claude-sonnet-4.5"
  }
}
