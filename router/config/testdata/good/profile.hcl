# What is written here wins over the profile; the rest is as it says.
profile = env("PROFILE", "copilot-api-router")

server {
  max_body = "1MiB"
}

upstream "a" {
  base_url = "https://a.example/v1"
  wires    = ["openai-chat"]
  auth     = "bearer"
  health_check {
    failures = 7
  }
}

upstream "b" {
  base_url = "https://b.example/v1"
  wires    = ["openai-chat"]
}

model "m" {
  target "a" {}
  target "b" {}
}

affinity {
  sources = []
}
