package config

import (
	"bytes"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
)

// leaky has a credential in every place where one can be, each made of pairs of Q and Z and nothing else has those.
const leaky = `# A file with literal keys.
locals {
  mine  = "sk-QZQZQZQZQZ"
  other = { deep = "QZQZQZQZQZ" }
}
server {
  listen = "127.0.0.1:0"
}
auth {
  key "a" {
    secret = "sk-QZQZQZQZQZ"
    scope  = "inference"
  }
}
upstream "a" {
  base_url = "https://user:QZQZQZQZQZ@a.example/v1?key=QZQZQZQZQZ"
  wires    = ["openai-chat"]
  api_key  = "sk-QZQZQZQZQZ"
  auth     = "bearer"
  headers = {
    Authorization = "Bearer QZQZQZQZQZ"
    "x-two"       = "QZQZQZQZQZ"
  }
}
upstream "b" { api_key = sk-QZQZQZQZQZ }
upstream "c" {
  base_url = "http://c.example"
  wires    = ["gemini"]
  api_key  = local.mine
  headers  = { X-Key = env("sk-ant-QZQZQZQZQZ"), X-Other = env("UNSET", "QZQZQZQZQZ") }
}
model "m" {
  target "a" {}
  target "c" {
    wire = "gemini"
  }
}
state "redis" {
  url = "redis://:QZQZQZQZQZ@localhost"
}
telemetry {
  otlp {
    headers = { api-key = "QZQZQZQZQZ" }
  }
}
`

// TestNoLeak breaks a file in every place in many ways and looks for credentials in all that is said about it.
func TestNoLeak(t *testing.T) {
	t.Parallel()
	noLeak(t, leaky)
	inserts := []string{`"`, `{`, `}`, `[`, `(`, `=`, "\n", `${`, `%{`, `\`, `#`, `/*`, `<<EOT`, `x`, ` `}
	for i := range leaky {
		switch i % 3 { // All of them in every place take long and find no more.
		case 0:
			noLeak(t, leaky[:i])
		default:
			noLeak(t, leaky[:i]+inserts[i*7%len(inserts)]+leaky[i:])
		}
		noLeak(t, leaky[:i]+leaky[i+1:])
	}
}

func noLeak(t *testing.T, src string) {
	t.Helper()
	f, diags := Parse([]byte(src), "config.hcl", environment)
	var out bytes.Buffer
	_ = Write(&out, diags, f, false)
	for _, d := range diags {
		out.WriteString(d.Error())
	}
	foreign := hcl.NewDiagnosticTextWriter(&out, nil, 80, false) // Someone may print them by other means.
	_ = foreign.WriteDiagnostics(diags)
	if i := strings.Index(out.String(), "QZQZ"); i >= 0 {
		t.Fatalf("a credential leaks: …%s\n%s", out.String()[max(0, i-300):i+10], src)
	}
}

func TestWrite(t *testing.T) {
	src := "upstream \"a\" {\n\tbase_url = \"x\" # why\n  api_key = \"k\"\n  wires = [\"gemini\"]\n}\nmodel \"m\" {\n  target \"b\" {\n  }\n}\n"
	f, diags := Parse([]byte(src), "dir/config.hcl", environment)
	var out bytes.Buffer
	if err := Write(&out, diags, f, false); err != nil {
		t.Fatal(err)
	}
	want := `dir/config.hcl:1:1: warning: Unused upstream "a"
   1 | upstream "a" {
     | ^^^^^^^^^^^^
  No model has a target on it. Add one to a model, or take the upstream out.

dir/config.hcl:2:2: error: Invalid base_url
   2 | 	base_url = "x" …
     | 	^^^^^^^^^^^^^^
  It must be an absolute URL that begins with "http://" or "https://".

dir/config.hcl:3:3: warning: Literal api_key
  Whoever reads the file has it. Use secret("NAME") after signalbox secret set NAME, or env("NAME"), or file("path").

dir/config.hcl:7:10: error: Unknown upstream "b"
   7 |   target "b" {
     |          ^^^
  The configuration has no upstream of that name.

`
	if out.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", &out, want)
	}
	out.Reset()
	_ = Write(&out, diags, f, true)
	if !strings.Contains(out.String(), "\x1b[1;31merror\x1b[0m") {
		t.Errorf("no colour in %q", &out)
	}
}
