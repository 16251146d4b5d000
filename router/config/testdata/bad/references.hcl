upstream "anthropic" {
  base_url = "https://api.anthropic.com"
  wires    = ["anthropic-messages"]
  clients  = ["claude-cod"] # ERROR: Unknown client "claude-cod"
}

upstream "anthropic" { # ERROR: Duplicate upstream "anthropic"
  base_url = "https://api.anthropic.com"
  wires    = ["anthropic-messages"]
}

upstream "7" { # ERROR: Upstream named by a number # WARN: Unused upstream "7"
  base_url = "https://api.anthropic.com"
  wires    = ["anthropic-messages"]
}

upstream "a b" { # ERROR: Invalid upstream name # WARN: Unused upstream "a b"
  base_url = "https://api.anthropic.com"
  wires    = ["anthropic-messages"]
}

upstream "" { # ERROR: Empty upstream name # WARN: Unused upstream ""
  base_url = "https://api.anthropic.com"
  wires    = ["anthropic-messages"]
}

client "claude-code" {
  user_agent = "claude-cli/*"
}

model "sonnet" {
  target "antropic" {} # ERROR: Unknown upstream "antropic"
  target "anthropic" {}
  target "anthropic" { # ERROR: Duplicate target
    model = "sonnet"
  }
}

model "sonnet" { # ERROR: Duplicate model "sonnet" # ERROR: Model "sonnet" has no target
}

model "what?" { # ERROR: Invalid model id
  target "anthropic" {}
}

auth {
  key "a" {
    secret = env("KEY_A")
    group  = "team-b" # ERROR: Unknown group "team-b"
  }
  key "a" { # ERROR: Duplicate key "a"
    secret = env("NONE", "") # ERROR: Empty key
    scope  = "admn" # ERROR: Unknown scope
  }
}

group "team-a" {
  upstreams = [
    "anthropic",
    "anthropik", # ERROR: Unknown upstream "anthropik"
  ]
}

preset "coding" {
  models  = ["sonnet", "reviewing", "opus"] # ERROR: Unknown model or preset "opus" # ERROR: Preset contains itself
  weights = { sonet = 3 } # ERROR: Weight for "sonet"
}

preset "reviewing" {
  models = ["coding"] # ERROR: Preset contains itself
}

preset "coding" { # ERROR: Duplicate preset "coding" # ERROR: Preset "coding" has no models
}

passthrough { # ERROR: passthrough is not available yet
  upstreams = ["antropic"] # ERROR: Unknown upstream "antropic"
}

preset "alone" {
  models = ["alone"] # ERROR: Preset contains itself
}

model "any-*" {
  target "anthropic" {}
}

preset "pattern" {
  models = ["any-*"] # ERROR: Model "any-*" is a pattern
}
