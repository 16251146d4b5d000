# Every way of choosing, resting and retrying, in words other than the defaults.
server {
  max_concurrent_requests = 10
  max_queue_depth         = 0
}

auth {
  key "team" {
    secret = env("KEY_A")
    group  = "team-a"
  }
}

group "team-a" {
  upstreams = ["a"]
}

client "claude-code" {
  user_agent = "claude-cli/*"
  retries    = 2
}

upstream "a" {
  base_url       = "https://a.example/v1"
  wires          = ["openai-chat"]
  clients        = ["claude-code"]
  max_concurrent = 4
  cache_ttl      = "1h"
  health_check {}
}

model "m" {
  strategy      = "affinity"
  affinity_pool = 2
  target "a" {}
  retry {
    max = 3
  }
}

model "n" {
  strategy = "scored"
  target "a" {}
}

preset "p" {
  strategy = "weighted"
  models   = ["m", "n", "q"]
  weights  = { m = 3, n = 0 }
  defaults = { temperature = 0 }
}

preset "q" {
  strategy = "least_busy"
  models   = ["n"]
}

affinity {
  mode      = "strict"
  sources   = ["x-session-id", "session_id", "user"]
  renew     = false
  cache_ttl = "1h"
}

cooling {
  scope = "account"
  rate_limit {
    scope = "target"
  }
  none_eligible = "clear"
  healthy_on    = "answer"
}

failover {
  same_target_first = 1
  move_on           = "any"
  commit_on         = "event"
  all_failed        = "bad_gateway"
  distinct          = "upstream"
}
