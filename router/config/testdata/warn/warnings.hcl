defaults = { top_p = 1 }

telemetry {
  capture = "failed" # WARN: Contents in telemetry
}

upstream "a" {
  base_url = "http://models.lan:8000/v1" # WARN: Key over plain http
  wires    = ["openai-chat"]
  api_key  = "sk-literal" # WARN: Literal api_key
  drop     = ["top_p", "n"] # WARN: Field "top_p" is set and dropped
  headers = {
    Authorization = "Bearer x" # WARN: Literal key
    X-Title       = "fine"
  }
}

upstream "off" {
  base_url = "http://127.0.0.1:11434"
  wires    = ["openai-chat"]
  api_key  = env("NONE", "sk-default") # WARN: Literal api_key
  enabled  = false
}

upstream "spare" { # WARN: Unused upstream "spare"
  base_url = "http://[::1]:11434"
  wires    = ["openai-chat"]
  api_key  = env("KEY_A")
}

model "m" {
  target "a" {
    set  = { seed = 1 }
    drop = ["seed"] # WARN: Field "seed" is set and dropped
  }
}

model "n" { # WARN: Model "n" cannot be served
  target "off" {}
}

model "o" {
  affinity_pool = 2 # WARN: Unused affinity_pool
  target "a" {}
}

model "p" { # WARN: Model "p" is hidden
  target "a" {}
}

preset "p" {
  strategy      = "rendezvous"
  affinity_pool = 2 # WARN: Unused affinity_pool
  models        = ["m", "p"]
}

client "nobody" { # WARN: Client "nobody" matches nothing
}

auth {
  key "k" {
    secret = "${"lit"}eral" # WARN: Literal secret
  }
}
