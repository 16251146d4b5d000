package chat

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

const help = `Write a line and press Enter. Ctrl-C cancels an answer; at the mark it ends the program.
  /model A[,B...]  ask other models from now on; several are asked at once
  /export FILE     write the conversation as JSON, or as Markdown if FILE ends in .md
  /reset           forget the conversation
  /quit            end; so does Ctrl-D
`

// Loop talks until there are no more lines or /quit. An answer that fails is told, and the conversation goes on.
func (c *Chat) Loop(ctx context.Context) error {
	if err := c.choose(ctx); err != nil {
		return err
	}
	fmt.Fprintln(c.o.Notes, "/help tells what else there is; /quit ends.")
	lines := bufio.NewReader(c.o.In)
	for {
		fmt.Fprint(c.o.Notes, c.paint(bold, strings.Join(c.o.Models, ",")+"> "))
		text, err := lines.ReadString('\n')
		if text = strings.TrimSpace(text); text != "" {
			if quit := c.line(ctx, text); quit {
				return nil
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			fmt.Fprintln(c.o.Notes)
			return nil
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		}
	}
}

// line does what one line says.
func (c *Chat) line(ctx context.Context, text string) (quit bool) {
	word, rest, _ := strings.Cut(text, " ")
	rest = strings.TrimSpace(rest)
	switch {
	case !strings.HasPrefix(text, "/"):
		answers := c.ask(ctx, text)
		if len(answers) == 1 && answers[0].err != nil {
			c.complain(answers[0].err)
		}
		if c.o.Export != "" {
			c.complain(c.export(c.o.Export))
		}
	case word == "/quit":
		return true
	case word == "/reset":
		c.reset()
	case word == "/model":
		c.model(ctx, Models(rest))
	case word == "/export" && rest != "":
		if err := c.export(rest); err != nil {
			c.complain(err)
		} else {
			fmt.Fprintf(c.o.Notes, "written to %s\n", rest)
		}
	default:
		fmt.Fprint(c.o.Notes, help)
	}
	return false
}

// model changes who is asked; without a name it tells who could be.
func (c *Chat) model(ctx context.Context, names []string) {
	if len(names) > 0 {
		c.o.Models = names
		return
	}
	ids, err := c.models(ctx)
	if err != nil {
		c.complain(err)
		return
	}
	fmt.Fprintf(c.o.Notes, "there are: %s\n", strings.Join(ids, ", "))
}

func (c *Chat) complain(err error) {
	if err != nil {
		fmt.Fprintln(c.o.Notes, c.paint(red, err.Error()))
	}
}

// Models splits a list of models; "a, b" has two.
func Models(list string) (names []string) {
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names
}
