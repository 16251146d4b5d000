# What a model surely refuses is found where it counts: a higher layer, drop and rename are the ways out of it.
defaults = {
  output_config = { effort = "high" } # ERROR: claude-sonnet-4-5 takes no effort
}

upstream "a" {
  base_url = "https://a.example/v1"
  wires    = ["anthropic-messages", "openai-chat"]
  api_key  = env("KEY_A")
  set = {
    thinking = { type = "adaptive" } # ERROR: claude-sonnet-4-5 does not take adaptive thinking
  }
}

upstream "b" {
  base_url = "https://b.example/v1"
  wires    = ["anthropic-messages", "openai-chat", "openai-responses"]
  api_key  = env("KEY_A")
}

upstream "openrouter" {
  base_url = "https://openrouter.ai/api/v1"
  wires    = ["openai-chat"]
  api_key  = env("KEY_A")
}

model "claude-sonnet-4-5" {
  target "a" {}
}

model "old" {
  target "b" {
    model = "anthropic/claude-3.5-haiku:nitro"
    set   = { thinking = { type = "adaptive" } } # ERROR: anthropic/claude-3.5-haiku:nitro does not take adaptive thinking
    drop  = ["output_config"] # WARN: Field "output_config" is set and dropped
  }
}

model "always" {
  target "b" {
    model = "claude-opus-5.5-20260922"
    set   = { thinking = { type = "disabled" } } # ERROR: claude-opus-5.5-20260922 does not take thinking disabled
  }
}

model "budget" {
  defaults = {
    thinking = { type = "enabled", budget_tokens = 4096 } # ERROR: claude-opus-4-7 does not take thinking enabled
  }
  target "b" {
    model = "claude-opus-4-7"
  }
}

model "efforts" {
  defaults = {
    output_config = { effort = "xhigh" } # ERROR: claude-opus-4-5 takes no effort xhigh
  }
  target "b" {
    model = "claude-opus-4-5"
  }
}

model "gpt" {
  target "b" {
    model    = "gpt-5"
    defaults = { reasoning_effort = "xhigh" } # ERROR: gpt-5 takes no effort xhigh
  }
  target "openrouter" {
    model    = "openai/gpt-5"
    defaults = { reasoning_effort = "xhigh" } # which finds the nearest
  }
}

model "plain" {
  target "b" {
    model = "gpt-4.1"
    set   = { reasoning = { effort = "low" } } # ERROR: gpt-4.1 takes no effort
  }
}

model "fine" {
  target "a" {
    model = "claude-opus-4-6"
    set   = { thinking = { type = "adaptive" }, output_config = { effort = "max" } }
  }
  target "a" {
    model  = "claude-haiku-4-5"
    rename = { thinking = "ideas", output_config = "out" }
  }
  target "b" {
    model = "claude-sonnet-4-6"
    set   = { thinking = { type = "enabled", budget_tokens = 4096 } }
  }
  target "b" {
    model    = "unheard-of"
    defaults = { thinking = { type = "adaptive" }, reasoning_effort = "max" }
  }
  target "b" {
    model = "claude-haiku-5-5"
    set   = { thinking = "adaptive", output_config = 1, reasoning_effort = { }, reasoning = null }
  }
}

model "inside" {
  defaults = {
    output_config = { effort = "low" }
  }
  target "b" {
    model = "claude-opus-4-8"
  }
}

preset "outer" {
  models = ["inner"]
  defaults = {
    thinking = { type = "enabled" } # ERROR: claude-opus-4-8 does not take thinking enabled
  }
}

preset "inner" {
  models = ["inside"]
}
