// Package catalog is the table of what models cost and can do, for what a configuration leaves out. It must not know who
// asks for it, nor what it is used for.
package catalog

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"slices"
	"strings"
	"sync"
)

// models.json holds list prices and limits. They were gathered by the day of its version from makers' price pages, release notes
// and public collections of such figures, not all of which are first-hand: who is billed by them sets a price of his own. Only
// who makes a model and sells it has a price there, so open weights that others host have none. A price is that of the standard
// tier and of the shortest prompts where it grows with their length; DeepSeek's are those of its peak hours. What is sold
// cheaper until a date has the price of the version's day.
//
// To renew it, go through the makers' pages, change lines, keep them sorted, and set version to the day on which they were
// read. A line is one model under its normalised id; input stands where less than the context can be sent; flags and efforts
// are words, as below.
//
//go:embed models.json
var source string

// Entry is one model.
type Entry struct {
	Maker     string // who makes it: anthropic, openai, google and so on
	Context   int    // tokens of input and output together
	MaxInput  int    // tokens
	MaxOutput int    // tokens, 0 = whoever hosts it says
	Price     *Price // nil: nobody's list price
	Flags     []string
	Efforts   []string // reasoning efforts that it knows, from little to much; none: not told, or it knows none
}

// Price is in USD per million tokens.
type Price struct {
	Input        float64 `json:"in"`
	Output       float64 `json:"out"`
	CacheRead    float64 `json:"read"`     // 0: as Input
	CacheWrite   float64 `json:"write"`    // 0: as Input
	CacheWrite1h float64 `json:"write_1h"` // of writes that last for an hour; 0: as CacheWrite
}

// The flags of a model. The first four are words of Anthropic's Messages API.
const (
	AdaptiveThinking = "adaptive"      // takes thinking.type adaptive
	ThinkingAlwaysOn = "always_on"     // refuses thinking.type enabled and disabled
	LegacyThinking   = "legacy"        // takes thinking.type enabled with budget_tokens
	OutputConfig     = "output_config" // takes output_config.effort
	PromptCaching    = "cache"         // cached input is cheaper
	StructuredOutput = "schema"        // answers in a given JSON schema
	Vision           = "vision"        // sees images
	FunctionCalling  = "tools"
	Reasoning        = "reasoning" // thinks before it answers, always or when told to
	FastMode         = "fast"      // is also sold faster at a higher price
)

// Has reports whether the model has a flag.
func (e *Entry) Has(flag string) bool { return slices.Contains(e.Flags, flag) }

// TakesEffort reports whether the model knows a reasoning effort.
func (e *Entry) TakesEffort(effort string) bool { return slices.Contains(e.Efforts, effort) }

// model is a line of the table, which is read when somebody asks for it: all of them would be a good part of a start.
type model struct {
	line  string
	once  sync.Once
	entry Entry
}

var version, table = index(source)

// index finds the lines of the table.
func index(source string) (version string, table map[string]*model) {
	table = make(map[string]*model, strings.Count(source, "\n"))
	for line := range strings.Lines(source) {
		id, rest, _ := strings.Cut(strings.TrimSuffix(strings.TrimSpace(line), ","), `": `)
		id = strings.TrimPrefix(id, `"`)
		switch {
		case id == "version":
			version = strings.Trim(rest, `"`)
		case strings.HasSuffix(rest, "}"):
			table[id] = &model{line: rest}
		}
	}
	return version, table
}

// read is the entry of a line. What is wrong with it is a mistake in this program.
func (m *model) read() Entry {
	m.once.Do(func() {
		var l struct {
			Maker   string `json:"maker"`
			Context int    `json:"context"`
			Input   int    `json:"input"`
			Output  int    `json:"output"`
			Price   *Price `json:"price"`
			Flags   string `json:"flags"`
			Efforts string `json:"efforts"`
		}
		if err := json.Unmarshal([]byte(m.line), &l); err != nil {
			panic("catalog: models.json: " + err.Error())
		}
		m.entry = Entry{
			Maker: l.Maker, Context: l.Context, MaxInput: cmp.Or(l.Input, l.Context), MaxOutput: l.Output, Price: l.Price,
			Flags: strings.Fields(l.Flags), Efforts: strings.Fields(l.Efforts),
		}
	})
	return m.entry
}

// Version is the day on which the newest figures of the table were read, as YYYY-MM-DD.
func Version() string { return version }

// free is what a variant costs whose name says so.
var free Price

// Lookup finds a model by whatever name an upstream has for it: that of its maker, with or without a vendor before it and a
// variant behind it, with or without a date. It allocates nothing for ids of usual length.
func Lookup(id string) (Entry, bool) {
	var buf [96]byte
	key := normalise(buf[:0], id)
	m, ok := table[string(key)]
	if !ok {
		m, ok = table[string(undated(key))]
	}
	if !ok {
		return Entry{}, false
	}
	e := m.read()
	if strings.HasSuffix(id, ":free") {
		e.Price = &free
	}
	return e, true
}

// Normalise is the form in which the table has an id: without a leading ~, a vendor up to the last slash and a variant after
// a colon, with dashes for dots, in lower case.
func Normalise(id string) string { return string(normalise(nil, id)) }

func normalise(to []byte, id string) []byte {
	id = strings.TrimPrefix(id, "~")
	id, _, _ = strings.Cut(id[strings.LastIndexByte(id, '/')+1:], ":")
	for _, c := range []byte(id) {
		switch {
		case c == '.':
			c = '-'
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		}
		to = append(to, c)
	}
	return to
}

// undated cuts the date off an id: -20250929, @20250929 or -2024-08-06.
func undated(id []byte) []byte {
	for _, date := range []string{"-00000000", "@00000000", "-0000-00-00"} {
		if at := len(id) - len(date); at > 0 && matches(id[at:], date) {
			return id[:at]
		}
	}
	return id
}

// matches compares with a pattern in which 0 stands for any digit.
func matches(id []byte, pattern string) bool {
	for i, c := range id {
		if digit := '0' <= c && c <= '9'; pattern[i] == '0' && !digit || pattern[i] != '0' && pattern[i] != c {
			return false
		}
	}
	return true
}
