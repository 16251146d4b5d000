defaults = { model = "x" } # ERROR: The field model cannot be changed here

server {
  listen        = "0.0.0.0:4141" # ERROR: Open to other machines without a key
  admin_listen  = "4141"         # ERROR: Invalid admin_listen
  max_body      = 0              # ERROR: No room for a body
  drain_timeout = "-1s"          # ERROR: Negative drain_timeout
}

upstream "a" {
  base_url = "https://api.openai.com/v1/chat/completions" # ERROR: Endpoint in base_url
  wires    = ["openai-chat", "openai-chatt"] # ERROR: Unknown wires
  auth     = "baerer" # ERROR: Unknown auth
  headers = {
    Connection     = "close" # ERROR: Header Connection cannot be set
    host           = "x"     # ERROR: Header host cannot be set
    content-length = "1"     # ERROR: Header content-length cannot be set
    "x y"          = "1"     # ERROR: Invalid header name
    x-a            = "1"     # ERROR: Duplicate header x-a
    X-A            = "2"
    x-b            = "a\nb"  # ERROR: Unusable header value
  }
  set            = { model = "x", temperature = 1 } # ERROR: The field model cannot be changed here
  drop           = ["", "model"] # ERROR: Empty field name # ERROR: The field model cannot be changed here
  rename         = { a = "b", c = "b" } # ERROR: Rename to "b" is ambiguous
  developer_role = "keeep" # ERROR: Unknown developer_role
  max_concurrent = -1      # ERROR: Negative max_concurrent
  cache_ttl      = "-5m"   # ERROR: Negative cache_ttl
  timeouts {
    idle = "-1s" # ERROR: Negative idle
  }
  health_check {
    path     = "models" # ERROR: Invalid path
    interval = "0s"     # ERROR: Invalid interval
    failures = 0        # ERROR: Invalid failures
  }
}

upstream "b" { # ERROR: Missing wires
  base_url = "api.openai.com" # ERROR: Invalid base_url
}

upstream "c" {
  base_url = "https://user:pass@api.openai.com" # ERROR: Credential in base_url
  wires    = ["openai-chat"]
}

upstream "d" {
  base_url     = "https://api.openai.com/v1?key=x" # ERROR: Query in base_url
  wires        = ["openai-chat"]
  price_weight = -1 # ERROR: Negative price_weight
}

upstream "e" { # ERROR: Missing base_url
  wires = ["gemini"]
}

upstream "f" {
  command  = ["claude"] # ERROR: Both command and base_url # ERROR: upstream.command is not available yet
  base_url = "https://api.anthropic.com"
  api_key  = env("KEY_A") # ERROR: A key for a command
  mode     = "twice"      # ERROR: Unknown mode
}

model "heavy" { # ERROR: Every weight is 0
  strategy = "weighted"
  target "a" {
    weight = 0
  }
}

preset "light" {
  strategy      = "weighted"
  affinity_pool = 0              # ERROR: Invalid affinity_pool
  models        = ["heavy", "m"]
  weights       = { heavy = 0, m = 0 } # ERROR: Every weight is 0
}

preset "lost" {
  strategy      = "afinity" # ERROR: Unknown strategy
  affinity_pool = 3
  models        = ["m"]
  defaults      = { model = "x" } # ERROR: The field model cannot be changed here
}

model "m" {
  wires    = ["openai-chat"]
  strategy = "failovr" # ERROR: Unknown strategy
  target "a" {
    wire = "anthropic-messages" # ERROR: Upstream "a" does not speak anthropic-messages
  }
  target "b" {
    weight    = -1        # ERROR: Negative weight
    translate = "loosely" # ERROR: Unknown translate
  }
  target "c" {}
  target "d" {}
  target "e" {}
  target "f" {}
  affinity_pool = 0 # ERROR: Invalid affinity_pool
  price {
    input = -3 # ERROR: Negative input
  }
  retry {
    multiplier = 0.5 # ERROR: Invalid multiplier
  }
}

affinity {
  mode    = "maybe" # ERROR: Unknown mode
  sources = [
    "session_id",
    "x-sesion-id", # ERROR: Unknown sources
  ]
}

auth {
  open = ["models", "keys"] # ERROR: Unknown open
}

cooling {
  rate_limit {
    scope = "session" # ERROR: Unknown scope
  }
  server {
    after = 0 # ERROR: Invalid after
  }
  none_eligible = "never"   # ERROR: Unknown none_eligible
  scope         = "session" # ERROR: Unknown scope
  healthy_on    = "bytes"   # ERROR: Unknown healthy_on
}

failover {
  stream_error = "both"       # ERROR: Unknown stream_error
  move_on      = "never"      # ERROR: Unknown move_on
  commit_on    = "byte"       # ERROR: Unknown commit_on
  all_failed   = "badgateway" # ERROR: Unknown all_failed
  distinct     = "model"      # ERROR: Unknown distinct
}

state "disk" {} # ERROR: Unknown kind

telemetry {
  otlp {
    endpoint = "collector:4318" # ERROR: Invalid endpoint
    protocol = "udp"            # ERROR: Unknown protocol
    headers  = { "a b" = "c" }  # ERROR: Invalid header name
  }
  traces {
    sample_ratio = 1.5 # ERROR: Invalid sample_ratio
  }
  metrics {
    prometheus_listen = "9464" # ERROR: Invalid prometheus_listen
  }
  capture = "some" # ERROR: Unknown capture
}
