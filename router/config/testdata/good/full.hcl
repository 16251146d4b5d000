# Off values and defaults of what is not available yet are accepted.
profile  = ""
defaults = { temperature = 0.1 }

locals {
  keys  = { a = local.key }
  key   = env("KEY_A")
  token = "Bearer ${local.key}"
}

locals {
  wires = ["openai-chat", "openai-responses"]
}

server {
  listen                  = "[::]:4141"
  max_concurrent_requests = 0
  max_queue_depth         = 12
  max_body                = "64MiB"
}

auth {
  key "agents" {
    secret = local.key
  }
  key "ops" {
    secret = file("key")
    scope  = "admin"
  }
  issued_keys_file = ""
}

upstream "a" {
  base_url       = "https://a.example/api/v1/"
  wires          = local.wires
  api_key        = local.keys.a
  auth           = null
  clients        = []
  max_concurrent = 0
  headers        = { Authorization = local.token, X-Title = "signalbox" }
  set = {
    temperature = 0.30000000000000004
    seed        = 12345678901234567890
    nothing     = null
    nested      = { list = [1, "two", true, null], text = "<&>" }
  }
  drop   = ["user"]
  rename = { max_completion_tokens = "max_tokens" }
  mode   = "one-shot"
  timeouts {
    stream = "45m"
  }
}

upstream "b" {
  base_url = env("URL_B", "http://127.0.0.1:9000")
  wires    = ["anthropic-messages"]
  timeouts {}
}

model "claude-*-[1m]" {
  target "b" {}
  target "a" {
    wire   = "openai-responses"
    weight = 3
  }
  wires = ["anthropic-messages", "openai-responses"]
  price {
    input      = 3
    cache_read = 0.3
  }
}

model "claude-*" {
  target "b" {
    model = "claude-sonnet-4-5"
  }
  rewrite_model = false
}

affinity {
  mode         = "off"
  prefix_key   = false
  cache        = false
  cache_ttl    = "0s"
  pin_ttl      = "30m"
  max_sessions = 5
}

cooling {
  rate_limit {
    cap = "1s"
  }
  none_eligible = "reject"
}

state "memory" {}

telemetry {
  otlp {
    endpoint = "http://otel-collector:4318"
    headers  = { api-key = local.key }
  }
  traces {
    sample_ratio = 0
  }
}
