package main

import (
	"fmt"
	"slices"
	"strings"
)

// sketch is a configuration in the making.
type sketch struct {
	accounts  []account
	upstreams []sketched
	models    []sketchedModel
}

// sketched is one upstream block.
type sketched struct {
	account
	wires []string
}

type sketchedModel struct {
	comment, id string
	targets     [][2]string // upstream and model, which is empty where it is what the client asks for
}

// claudes are the names that agents ask for, and OpenRouter's for the same.
var claudes = [][2]string{
	{"claude-opus-*", "anthropic/claude-opus-4.5"},
	{"claude-sonnet-*", "anthropic/claude-sonnet-4.5"},
	{"claude-haiku-*", "anthropic/claude-haiku-4.5"},
	{"claude-*", "anthropic/claude-sonnet-4.5"},
}

// newSketch makes what accounts can serve.
func newSketch(accounts []account) *sketch {
	s := &sketch{accounts: accounts}
	for _, a := range accounts {
		s.upstreams = append(s.upstreams, sketched{a, a.wires})
	}
	s.claude()
	s.model("Codex and others ask for these.", "gpt-*", slices.Concat(s.of("openai", ""), s.of("openrouter", "openai/gpt-5.5")))
	for i := range providers {
		for _, id := range providers[i].models {
			s.model("", id, s.of(providers[i].name, ""))
		}
	}
	return s
}

// claude makes the models that Claude Code asks for, whatever it is told. Where nobody has them, others stand in.
func (s *sketch) claude() {
	own, resold := s.of("anthropic", ""), s.of("openrouter", "")
	comment := "Claude Code asks for these, for a large and a small one."
	for i, c := range claudes {
		last := i == len(claudes)-1
		if len(resold) > 0 || last && len(own) > 0 {
			s.model(comment, c[0], slices.Concat(own, s.of("openrouter", c[1])))
			comment = ""
		}
	}
	if len(own)+len(resold) > 0 {
		return
	}
	var targets [][2]string
	for _, a := range s.accounts {
		switch {
		case a.messages != "": // One upstream has one address, so that of this wire is another one.
			twin := a
			twin.upstream, twin.provider = s.unused(a.upstream+"-messages"), new(*a.provider)
			twin.base, twin.auth = a.messages, "both"
			s.upstreams = append(s.upstreams, sketched{twin, []string{messagesWire}})
			targets = append(targets, [2]string{twin.upstream, a.standIn})
		case a.standIn != "":
			targets = append(targets, [2]string{a.upstream, a.standIn})
		}
	}
	s.model("Claude Code asks for these. No key here is for Claude, so that others stand in, by translation where need be.", "claude-*", targets)
}

// unused is a name for an upstream that no account has: a variable's suffix may have made it already.
func (s *sketch) unused(name string) string {
	for slices.ContainsFunc(s.upstreams, func(u sketched) bool { return u.upstream == name }) {
		name += "-2"
	}
	return name
}

// of are targets on all accounts of a provider.
func (s *sketch) of(provider, model string) (targets [][2]string) {
	for _, a := range s.accounts {
		if a.name == provider {
			targets = append(targets, [2]string{a.upstream, model})
		}
	}
	return targets
}

func (s *sketch) model(comment, id string, targets [][2]string) {
	if len(targets) > 0 {
		s.models = append(s.models, sketchedModel{comment, id, targets})
	}
}

// modelFor is something that clients of one of the wires can ask for, "" if there is nothing for them.
func (s *sketch) modelFor(wires []string) string {
	claude := slices.ContainsFunc(s.models, func(m sketchedModel) bool { return m.id == "claude-*" })
	for _, a := range s.accounts {
		for _, w := range wires {
			switch {
			case slices.Contains(a.wires, w) && a.name == "openrouter" && w == messagesWire:
				return "claude-sonnet-4-5"
			case slices.Contains(a.wires, w):
				return a.ask
			}
		}
	}
	// What is left is by translation between Messages and Chat.
	if claude && (slices.Contains(wires, messagesWire) || slices.Contains(wires, chatWire)) {
		return "claude-sonnet-4-5"
	}
	return ""
}

const preface = `# Written by signalbox init. What else can be set: config.hcl.example. Look it over with signalbox check.
#
# The router listens on 127.0.0.1:4141, where only this machine reaches it, so nobody needs a key. To let others in, give it
# an address and a key, which agents then send in place of a provider's:
#
#   server {
#     listen = "0.0.0.0:4141"
#   }
#   auth {
#     key "agents" {
#       secret = secret("SIGNALBOX_KEY")   # signalbox secret set SIGNALBOX_KEY
#     }
#   }

# An upstream is one account at one provider. base_url says where, wires what it speaks. api_key has the name of the key:
# env finds it in the environment, else in the managed secrets (signalbox secret list), else in .env beside this file.
`

const between = `
# A model is what agents ask for; * stands for anything. Its targets are tried in this order: the next one when the one
# before is over its limit, broken or slow. A target without a model of its own gets the name that was asked for.
`

// text is the file.
func (s *sketch) text() string {
	var out strings.Builder
	out.WriteString(preface)
	for _, u := range s.upstreams {
		fmt.Fprintf(&out, "\nupstream %q {\n  base_url = %q\n  wires    = [\"%s\"]\n  api_key  = env(%q)\n", u.upstream, u.base, strings.Join(u.wires, `", "`), u.key)
		if u.auth != "" {
			fmt.Fprintf(&out, "  auth     = %q # how the key is sent\n", u.auth)
		}
		out.WriteString("}\n")
	}
	out.WriteString(between)
	for _, m := range s.models {
		out.WriteString("\n")
		if m.comment != "" {
			fmt.Fprintf(&out, "# %s\n", m.comment)
		}
		fmt.Fprintf(&out, "model %q {\n", m.id)
		for _, t := range m.targets {
			if t[1] == "" {
				fmt.Fprintf(&out, "  target %q {}\n", t[0])
			} else {
				fmt.Fprintf(&out, "  target %q {\n    model = %q\n  }\n", t[0], t[1])
			}
		}
		out.WriteString("}\n")
	}
	return out.String()
}
