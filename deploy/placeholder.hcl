# There was no configuration, so `make up` put this one here: Signalbox starts with it and tells its status, but its only
# upstream answers nobody. Replace it; config.hcl.example has every setting.

server {
  listen = env("SIGNALBOX_LISTEN", "127.0.0.1:4141")
}

auth {
  key "operator" {
    secret = env("SIGNALBOX_KEY")
    scope  = "admin"
  }
}

upstream "unreachable" {
  base_url = "http://127.0.0.1:9"
  wires    = ["openai-chat", "anthropic-messages"]
}

model "*" {
  target "unreachable" {}
}
