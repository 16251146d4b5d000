# Elsewhere presets that contain themselves are errors.
profile = "switchblade"

upstream "a" {
  base_url = "https://a.example/v1"
  wires    = ["openai-chat"]
}

model "m" {
  affinity_pool = 2 # Of use: the strategy is "affinity".
  target "a" {}
}

preset "coding" {
  models = ["m", "reviewing"] # WARN: Preset contains itself
}

preset "reviewing" {
  models = ["coding"] # WARN: Preset contains itself
}

preset "alone" {
  models = ["m", "alone"] # WARN: Preset contains itself
}
