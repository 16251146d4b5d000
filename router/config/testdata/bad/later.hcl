profile = "llm-router" # ERROR: profile is not available yet

server {
  max_concurrent_requests = 10 # ERROR: server.max_concurrent_requests is not available yet
  max_queue_depth         = 7
}

auth {
  issued_keys_file = "keys.json" # ERROR: auth.issued_keys_file is not available yet
}

upstream "a" {
  base_url         = "https://a.example/v1"
  wires            = ["openai-chat"]
  max_concurrent   = 1    # ERROR: upstream.max_concurrent is not available yet
  replay_reasoning = true # ERROR: upstream.replay_reasoning is not available yet
  health_check { # ERROR: upstream.health_check is not available yet # ERROR: Invalid health_check
    path     = "models" # ERROR: Invalid path
    failures = 0
  }
}

upstream "cli" {
  command = ["claude", "-p"] # ERROR: upstream.command is not available yet
  wires   = ["anthropic-messages"]
  mode    = "persistent" # ERROR: upstream.mode is not available yet
}

model "m" {
  wires         = ["openai-chat", "anthropic-messages"] # ERROR: No target speaks anthropic-messages
  strategy      = "least_busy" # ERROR: model.strategy is not available yet
  affinity_pool = 2            # ERROR: model.affinity_pool is not available yet
  target "a" {
    translate = "strict" # ERROR: target.translate is not available yet
  }
  price {
    off_peak { # ERROR: model.price.off_peak is not available yet
      factor = 0.5
    }
  }
  retry {
    max = 1 # ERROR: model.retry.max is not available yet
  }
}

model "n" { # ERROR: Every weight is 0
  strategy = "weighted" # ERROR: model.strategy is not available yet
  target "a" {
    weight = 0
  }
  target "cli" {
    weight = 0
  }
}

upstream "b" {
  base_url = "https://b.example"
  wires    = ["anthropic-messages"]
}

model "o" {
  wires = ["openai-chat"]
  target "a" {}
  target "b" {} # ERROR: The target speaks none of the model's wires
}

affinity {
  mode      = "strict" # ERROR: affinity.mode is not available yet
  cache_ttl = "1h"     # ERROR: affinity.cache_ttl is not available yet
}

cooling {
  none_eligible = "soonest" # ERROR: cooling.none_eligible is not available yet
}

failover {
  same_target_first = 2 # ERROR: failover.same_target_first is not available yet
}

state "redis" { # ERROR: Missing url # ERROR: state.kind is not available yet
}

usage { # ERROR: usage is not available yet
}

telemetry {
  capture = "all" # ERROR: telemetry.capture is not available yet
}
