package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/signalbox-llm/signalbox/router/config"
	"github.com/signalbox-llm/signalbox/router/secrets"
)

// initialise writes a configuration for the keys that can be found, and says how to go on. It writes names, never keys.
func initialise(_ context.Context, e env, args []string) error {
	path, force := "config.hcl", false
	rest, err := parse(e, "init", args, func(f *flag.FlagSet) {
		f.StringVar(&path, "o", path, "the `file` to write")
		f.BoolVar(&force, "force", false, "overwrite the file")
	})
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return usageError{fmt.Errorf("unexpected %q", rest[0])}
	}
	sources := secrets.Open(path, os.LookupEnv)
	book, err := sources.Store.Read()
	if err != nil {
		return err
	}
	found := findAccounts(knownNames(os.Environ(), book, sources.DotEnv), func(name string) string {
		value, _ := sources.Owned(name, book)
		return value
	})
	if len(found) == 0 {
		return fmt.Errorf("no key of a provider is set, in the environment, the managed secrets or .env; what is looked for:\n  %s\n"+
			"and the same with _2, _WORK and the like for further accounts. To store one: signalbox secret set %s",
			strings.Join(keyNames(), "\n  "), keyNames()[0])
	}
	s := newSketch(found)
	if err := create(path, s.text(), force); err != nil {
		return err
	}
	file, diags := config.Load(path)
	if err := config.Write(e.stderr, diags, file, colours(e.stderr)); err != nil {
		return err
	}
	if diags.HasErrors() {
		return fmt.Errorf("%s is written, but refused as the marks above say", path)
	}
	return s.goOn(e.stdout, path)
}

// create writes a file that must not be there, unless force says otherwise.
func create(path, text string, force bool) error {
	how := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if force {
		how = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	f, err := os.OpenFile(path, how, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there already; -force overwrites it", path)
	}
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, text)
	return errors.Join(err, f.Close())
}

// goOn says what was written and how knownAgents get there. What is said is what the file can serve.
func (s *sketch) goOn(w io.Writer, path string) error {
	var out strings.Builder
	fmt.Fprintf(&out, "%s is written, with a key each from:", path)
	for _, a := range s.accounts {
		fmt.Fprintf(&out, " %s", a.key)
	}
	fmt.Fprintf(&out, "\nIt has no key itself: it says env(\"NAME\").\n\n  signalbox check %s\n  signalbox serve -config %s\n\nThen point your agents at it. "+
		"They insist on a key; any text will do while the router listens on this machine only.\n", path, path)
	for _, a := range knownAgents {
		if model := s.modelFor(a.wires); model != "" {
			fmt.Fprintf(&out, "\n%s\n%s", a.name, strings.ReplaceAll(a.how, "MODEL", model))
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// knownAgents are told about if the file has a model for one of their wires.
var knownAgents = []struct {
	name  string
	wires []string
	how   string
}{
	{"Claude Code", []string{messagesWire}, "  ANTHROPIC_BASE_URL=http://127.0.0.1:4141 ANTHROPIC_API_KEY=any claude\n"},
	{"Codex, in ~/.codex/config.toml", []string{responsesWire}, `  model = "MODEL"
  model_provider = "signalbox"
  [model_providers.signalbox]
  name = "signalbox"
  base_url = "http://127.0.0.1:4141/v1"
  wire_api = "responses"
`},
	{"opencode, in opencode.json", []string{chatWire}, `  {"model": "signalbox/MODEL", "small_model": "signalbox/MODEL",
   "provider": {"signalbox": {"npm": "@ai-sdk/openai-compatible",
    "options": {"baseURL": "http://127.0.0.1:4141/v1", "apiKey": "any"}, "models": {"MODEL": {"name": "MODEL"}}}}}
`},
	{"gemini-cli", []string{geminiWire}, "  GOOGLE_GEMINI_BASE_URL=http://127.0.0.1:4141 GEMINI_API_KEY=any gemini -m MODEL\n"},
	{"OpenAI SDKs", []string{chatWire, responsesWire}, "  OPENAI_BASE_URL=http://127.0.0.1:4141/v1 OPENAI_API_KEY=any     # model MODEL\n"},
	{"Anthropic SDKs", []string{messagesWire}, "  ANTHROPIC_BASE_URL=http://127.0.0.1:4141 ANTHROPIC_API_KEY=any  # model MODEL\n"},
}
