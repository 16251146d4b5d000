# Figures that are not those of the catalogue: once for each, whatever the number of targets.
upstream "a" {
  base_url = "https://a.example/v1"
  wires    = ["anthropic-messages"]
  api_key  = env("KEY_A")
}

upstream "b" {
  base_url = "https://b.example/v1"
  wires    = ["anthropic-messages"]
  api_key  = env("KEY_A")
}

model "sonnet" {
  context_window = 100000 # WARN: Known otherwise: context_window is 100000 here, 200000 for anthropic/claude-sonnet-4.5, 200000 for claude-sonnet-4-5
  max_output     = 1      # WARN: Known otherwise: max_output is 1 here, 64000 for anthropic/claude-sonnet-4.5, 64000 for claude-sonnet-4-5
  price {
    input       = 2.5 # WARN: Known otherwise: input is 2.5 here, 3 for anthropic/claude-sonnet-4.5, 3 for claude-sonnet-4-5
    output      = 15
    cache_read  = 0.03 # WARN: Known otherwise: cache_read is 0.03 here, 0.3 for anthropic/claude-sonnet-4.5, 0.3 for claude-sonnet-4-5
    cache_write = 3.75
  }
  target "a" {
    model = "claude-sonnet-4-5"
  }
  target "b" {
    model = "anthropic/claude-sonnet-4.5"
  }
}

model "mixed" { # one price for targets that differ
  context_window = 200000
  price {
    input  = 5  # WARN: Known otherwise: input is 5 here, 1 for claude-haiku-4-5
    output = 25 # WARN: Known otherwise: output is 25 here, 5 for claude-haiku-4-5
  }
  target "a" {
    model = "claude-opus-4-8"
  }
  target "b" {
    model = "claude-haiku-4-5"
  }
}

model "gpt-5" { # whole window, or what of it can be sent
  context_window = 272000
  price {} # costs nothing, by subscription
  target "a" {}
}

model "unheard-of" {
  context_window = 1
  max_output     = 1
  price {
    input = 1
  }
  target "a" {}
}

model "claude-*" {
  context_window = 1
  target "a" {}
}
