package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// export writes the conversation to a file that only its owner may read: JSON, or Markdown if its name ends in .md.
func (c *Chat) export(file string) error {
	text, err := c.asJSON()
	if strings.HasSuffix(strings.ToLower(file), ".md") {
		text = c.asMarkdown()
	}
	if err != nil {
		return err
	}
	if c.o.Key != "" { // A server may have repeated it in an error.
		text = bytes.ReplaceAll(text, []byte(c.o.Key), []byte("[redacted]"))
	}
	return os.WriteFile(file, text, 0o600)
}

func (c *Chat) asJSON() ([]byte, error) {
	talk := struct {
		Session string `json:"session"`
		Wire    string `json:"wire"`
		System  string `json:"system,omitempty"`
		Effort  string `json:"effort,omitempty"`
		Turns   []turn `json:"turns"`
	}{c.session, string(c.wire.Name), c.o.System, c.o.Effort, append([]turn{}, c.turns...)}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(talk)
	return b.Bytes(), err
}

func (c *Chat) asMarkdown() []byte {
	var b bytes.Buffer
	if c.o.System != "" {
		fmt.Fprintf(&b, "## System\n\n%s\n\n", c.o.System)
	}
	for _, t := range c.turns {
		fmt.Fprintf(&b, "## User\n\n%s\n\n", t.Prompt)
		for _, a := range t.Answers {
			fmt.Fprintf(&b, "## %s\n\n", a.Model)
			if a.Reasoning != "" {
				fmt.Fprintf(&b, "> %s\n\n", strings.ReplaceAll(strings.TrimSpace(a.Reasoning), "\n", "\n> "))
			}
			if a.Text != "" {
				fmt.Fprintf(&b, "%s\n\n", strings.TrimSpace(a.Text))
			}
			if a.Error != "" {
				fmt.Fprintf(&b, "**%s**\n\n", a.Error)
			}
			if said := strings.Join(a.facts(), " · "); said != "" {
				fmt.Fprintf(&b, "_%s_\n\n", said)
			}
		}
	}
	return b.Bytes()
}
