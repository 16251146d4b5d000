upstream "a" {
  base_url = "https://a.example/v1"
  wires    = ["openai-chat"]
}

model "m" {
  target "a" {}
  price {
    input = 1
    off_peak {
      days   = "1-8" # ERROR: Invalid days
      factor = 0.5
    }
  }
}

model "n" {
  target "a" {}
  price {
    off_peak { # ERROR: Factor is missing
      hours = "25-26" # ERROR: Invalid hours
    }
  }
}

model "o" {
  target "a" {}
  price {
    off_peak {
      hours  = "04" # ERROR: Invalid hours
      factor = 101  # ERROR: Invalid factor
    }
  }
}
