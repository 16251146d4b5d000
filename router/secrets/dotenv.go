package secrets

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// DotEnv is what a .env file says: lines of NAME=VALUE. The zero value says nothing. It prints nothing of its values.
type DotEnv struct {
	path    string
	values  map[string]string
	trouble string
}

// ReadDotEnv reads a file, which need not exist. What cannot be understood is left out, and Trouble tells of it.
func ReadDotEnv(path string) DotEnv {
	content, err := readFile(path, func(fs.FileInfo) error { return nil })
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return DotEnv{path: path}
	case err != nil:
		return DotEnv{path: path, trouble: fmt.Sprintf("%s cannot be read: %v", path, err)}
	}
	d := ParseDotEnv(string(content))
	d.path = path
	if d.trouble != "" {
		d.trouble = path + ": " + d.trouble
	}
	return d
}

// dotEnvLine is compiled when there is a line to read: that is a good part of a start.
var dotEnvLine = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)$`)
})

// ParseDotEnv reads the text of a .env file: NAME=VALUE with or without "export" before it and quotes around the value,
// of which double ones know \n, \r, \t, \" and \\; # begins a comment at the begin of a line and after space. The last
// one of a name counts.
func ParseDotEnv(text string) DotEnv {
	d := DotEnv{values: map[string]string{}}
	for i, line := range strings.Split(strings.TrimPrefix(text, "\ufeff"), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		parts := dotEnvLine().FindStringSubmatch(line)
		if parts != nil {
			if value, ok := dotEnvValue(parts[2]); ok {
				d.values[parts[1]] = value
				continue
			}
		}
		if d.trouble == "" {
			d.trouble = fmt.Sprintf("line %d is not NAME=VALUE", i+1)
		}
	}
	return d
}

var escapes = strings.NewReplacer(`\n`, "\n", `\r`, "\r", `\t`, "\t", `\"`, `"`, `\\`, `\`)

// dotEnvValue takes quotes and comment off a value. It is not one if a quote does not end.
func dotEnvValue(text string) (string, bool) {
	if text == "" || text[0] != '"' && text[0] != '\'' {
		if strings.HasPrefix(text, "#") {
			return "", true
		}
		for i := 1; i < len(text); i++ {
			if text[i] == '#' && (text[i-1] == ' ' || text[i-1] == '\t') {
				text = text[:i]
			}
		}
		return strings.TrimSpace(text), true
	}
	quote, end := text[0], -1
	for i := 1; i < len(text) && end < 0; i++ {
		switch {
		case quote == '"' && text[i] == '\\':
			i++
		case text[i] == quote:
			end = i
		}
	}
	if end < 0 {
		return "", false
	}
	value, rest := text[1:end], strings.TrimSpace(text[end+1:])
	if quote == '"' {
		value = escapes.Replace(value)
	}
	return value, rest == "" || rest[0] == '#'
}

// Path is where the file is, or would be.
func (d DotEnv) Path() string { return d.path }

// Lookup returns the value of a name.
func (d DotEnv) Lookup(name string) (string, bool) {
	value, ok := d.values[name]
	return value, ok
}

// Names returns the names in order.
func (d DotEnv) Names() []string { return slices.Sorted(maps.Keys(d.values)) }

// Trouble says what could not be read or understood, "" if there is nothing. It repeats no line.
func (d DotEnv) Trouble() string { return d.trouble }

// String implements fmt.Stringer.
func (d DotEnv) String() string { return fmt.Sprintf("[%d variables]", len(d.values)) }

// GoString implements fmt.GoStringer.
func (d DotEnv) GoString() string { return d.String() }
