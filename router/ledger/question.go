package ledger

import (
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Question is what is asked of a store; an empty field asks for everything.
type Question struct {
	Since, Until time.Time // from Since on and before Until
	Filters      []Filter
	GroupBy      []string // up to two of Dimensions; none: single requests are listed
	Limit        int      // of groups or requests, from 1 to LimitMax
}

// Filter keeps rows that have the value in a column.
type Filter struct{ Name, Value string }

// LimitMax is the most groups or requests that one answer has; who asks for more gets the usual number.
const LimitMax = 1000

const (
	limitDefault = 100
	groupsMax    = 2
)

// filters are the parameters that name one value, and the columns that have it.
var filters = []struct{ name, column string }{
	{"model", "model"},
	{"upstream", "upstream"},
	{"upstream_model", "upstream_model"},
	{"key", "key_name"},
	{"agent", "agent"},
	{"session", "session"},
	{"call", "call"},
	{"outcome", "outcome"},
	{"cost_source", "cost_source"},
	{"wire", "wire"},
}

// dimension is something that rows may be grouped by.
type dimension struct {
	name string
	expr string // of SQL

	// Where the expression counts periods since 1970: how long one is, and how its beginning is written.
	period time.Duration
	layout string
}

var dimensions = []dimension{
	{name: "model", expr: "model"},
	{name: "upstream", expr: "upstream"},
	{name: "upstream_model", expr: "upstream_model"},
	{name: "key", expr: "key_name"},
	{name: "agent", expr: "agent"},
	{name: "session", expr: "session"},
	{name: "cost_source", expr: "cost_source"},
	{name: "outcome", expr: "outcome"},
	{name: "wire", expr: "wire"},
	{name: "day", expr: "at / 86400000000", period: 24 * time.Hour, layout: time.DateOnly},
	{name: "hour", expr: "at / 3600000000", period: time.Hour, layout: "2006-01-02T15:00Z"},
}

// Dimensions are the names of what rows may be grouped by.
func Dimensions() (names []string) {
	for _, d := range dimensions {
		names = append(names, d.name)
	}
	return names
}

// Parameters are the names of what ParseQuestion takes.
func Parameters() []string {
	names := []string{"since", "until", "group_by", "limit"}
	for _, f := range filters {
		names = append(names, f.name)
	}
	return names
}

// ParseQuestion reads the parameters of GET /usage. An empty value is none; whatever is wrong is an error that names the
// parameter.
func ParseQuestion(values url.Values, now time.Time) (q Question, err error) {
	q.Limit = limitDefault
	for _, name := range slices.Sorted(maps.Keys(values)) {
		given := values[name]
		if len(given) != 1 {
			return q, fmt.Errorf("%q stands %d times", name, len(given))
		}
		if given[0] == "" {
			continue
		}
		if err := q.set(name, given[0], now); err != nil {
			return q, fmt.Errorf("%q %w", name, err)
		}
	}
	if !q.Since.IsZero() && !q.Until.IsZero() && !q.Since.Before(q.Until) {
		return q, errors.New(`"since" must be before "until"`)
	}
	return q, nil
}

// set sets what one parameter says.
func (q *Question) set(name, value string, now time.Time) (err error) {
	switch name {
	case "since":
		q.Since, err = moment(value, now)
	case "until":
		q.Until, err = moment(value, now)
	case "limit":
		if q.Limit, err = strconv.Atoi(value); err != nil || q.Limit < 1 {
			return errors.New("must be a whole number above 0")
		}
		if q.Limit > LimitMax {
			q.Limit = limitDefault
		}
	case "group_by":
		q.GroupBy = strings.Split(value, ",")
		return checkGroups(q.GroupBy)
	case "alias":
		return q.set("model", value, now)
	case "session":
		q.Filters = append(q.Filters, Filter{name, HashSession(value)})
	default:
		if column(name) == "" {
			return errors.New("is not known here; there are " + strings.Join(Parameters(), ", "))
		}
		q.Filters = append(q.Filters, Filter{name, value})
	}
	return err
}

func checkGroups(names []string) error {
	if len(names) > groupsMax {
		return fmt.Errorf("takes at most %d names", groupsMax)
	}
	for i, name := range names {
		if !slices.Contains(Dimensions(), name) {
			return errors.New("must be one or two of " + strings.Join(Dimensions(), ", "))
		}
		if slices.Contains(names[:i], name) {
			return fmt.Errorf("has %s twice", name)
		}
	}
	return nil
}

func dimensionOf(name string) dimension {
	return dimensions[slices.IndexFunc(dimensions, func(d dimension) bool { return d.name == name })]
}

// column is that of a filter; empty if there is none.
func column(filter string) string {
	for _, f := range filters {
		if f.name == filter {
			return f.column
		}
	}
	return ""
}

// moment reads a time, a day, which is its midnight in UTC, or how long ago it was.
func moment(text string, now time.Time) (time.Time, error) {
	if text == "today" {
		text = now.UTC().Format(time.DateOnly)
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	age, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n float64
		n, err = strconv.ParseFloat(days, 64)
		age = time.Duration(n * 24 * float64(time.Hour))
	}
	if err != nil || age < 0 || age > 100*365*24*time.Hour {
		return time.Time{}, errors.New("must be a time such as 2026-11-30T08:00:00Z, a day such as 2026-11-30 or today, or an age such as 90m, 24h or 7d")
	}
	return now.Add(-age), nil
}

// HashSession is what rows and spans know a session by: FNV-1a of its key, 32 bits in hex. What is such a hash already
// stays as it is.
func HashSession(id string) string {
	if len(id) == 8 && strings.Trim(id, "0123456789abcdef") == "" {
		return id
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(id)) // it cannot fail
	return hex.EncodeToString(h.Sum(nil))
}
