locals {
  first  = local.second # ERROR: Local value refers to itself
  second = local.first
  third  = env("UNSET") # ERROR: Error in function call
  block { # ERROR: Unsupported block type
  }
}

locals "named" { # ERROR: Extraneous label for locals
  third = "again" # ERROR: Duplicate local value
}

upstream "a" {
  base_url       = local.third
  wires          = [local.fourth] # ERROR: Unsupported attribute
  api_key        = env("EMPTY")   # ERROR: Error in function call
  auth           = env("sk-abc")  # ERROR: Error in function call
  provider       = enw("KEY_A")   # ERROR: Call to unknown function
  developer_role = secret("KEY")  # ERROR: Error in function call
  command        = [file("nowhere/key")] # ERROR: Error in function call
  mode           = file(".")      # ERROR: Error in function call
  drop           = [bare]         # ERROR: Unknown variable
}

model "m" {
  strategy = env("KEY_A", "x", "y") # ERROR: Error in function call
  target "a" {
    model = env() # ERROR: Not enough function arguments
  }
}
