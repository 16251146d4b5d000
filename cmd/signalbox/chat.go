package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/signalbox-llm/signalbox/cmd/internal/chat"
	"github.com/signalbox-llm/signalbox/translate/wire"
)

// chatting talks to the models of a running router: once with a prompt, else line by line.
func chatting(ctx context.Context, e env, args []string) error {
	o, keyFile := chat.Options{URL: "http://127.0.0.1:4141"}, ""
	if url := os.Getenv("SIGNALBOX_URL"); url != "" {
		o.URL = url
	}
	rest, err := parse(e, "chat", args, func(f *flag.FlagSet) {
		f.StringVar(&o.URL, "url", o.URL, "the running router's `URL`, also from SIGNALBOX_URL; with /backends/NAME behind it, that upstream alone is asked")
		f.StringVar(&keyFile, "key-file", "", "a `file` with the key to send, in place of SIGNALBOX_KEY")
		f.Func("model", "`models` to ask, such as sonnet,gpt: several are asked at once and compared", func(list string) error {
			o.Models = chat.Models(list)
			return nil
		})
		f.StringVar((*string)(&o.Wire), "wire", string(wire.Chat), "the `wire` to speak: openai-chat, openai-responses, anthropic-messages, gemini")
		f.StringVar(&o.System, "system", "", "the system prompt, a `text`")
		f.StringVar(&o.Effort, "effort", "", "how hard to think, such as low, medium or high")
		f.IntVar(&o.Max, "max", 0, "at most so many output `tokens`")
		f.StringVar(&o.Export, "export", "", "write the conversation to this `file`, as JSON, or as Markdown if it ends in .md")
	})
	if err != nil {
		return err
	}
	switch {
	case len(rest) > 1:
		return usageError{errors.New("one prompt is wanted, in quotation marks, and flags before it")}
	case o.Max < 0:
		return usageError{errors.New("-max cannot be negative")}
	}
	if o.Key, o.KeyFrom, err = chatKey(keyFile); err != nil {
		return err
	}
	o.In, o.Out, o.Notes, o.Version, o.Now, o.Interruptible = e.stdin, e.stdout, e.stderr, versionText(), time.Now, interruptible
	o.Colours, o.Terminal, o.Width = colours(e.stderr), isTerminal(e.stdout), terminalWidth(e.stdout)
	c, err := chat.New(o)
	if err != nil {
		return usageError{err}
	}
	defer c.Close()
	if len(rest) == 0 && isTerminal(e.stdin) {
		return c.Loop(ctx)
	}
	prompt := strings.Join(rest, "")
	if len(rest) == 0 || prompt == "-" {
		text, err := io.ReadAll(e.stdin)
		if err != nil {
			return fmt.Errorf("standard input: %w", err)
		}
		prompt = string(text)
	}
	return c.Once(ctx, prompt)
}

// chatKey is the key to send, and where it is from. It is no flag, since everybody on a machine sees those.
func chatKey(file string) (key, from string, err error) {
	if file == "" {
		return os.Getenv("SIGNALBOX_KEY"), "SIGNALBOX_KEY", nil
	}
	text, err := os.ReadFile(file)
	return strings.TrimSpace(string(text)), file, err
}

// interruptible ends with Ctrl-C, which does not end the program until stop is called.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, os.Interrupt)
}
