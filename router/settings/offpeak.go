package settings

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// hours are the times of a week at which an OffPeak holds, in UTC. An empty list is every day, or all day.
type hours struct {
	days  [8]bool  // by ISO number, 1 = Monday; none set = every day
	spans [][2]int // minutes of the day, from and to; one that ends before it begins goes on after midnight
	all   bool     // every day
}

// At is what the price is multiplied by at a time. It wants an OffPeak that Validate has found nothing wrong with.
func (o *OffPeak) At() func(time.Time) float64 {
	h, _, err := o.parse()
	if err != nil {
		return nil
	}
	factor := o.Factor
	return func(now time.Time) float64 {
		if h.hold(now.UTC()) {
			return factor
		}
		return 1
	}
}

// hold reports whether a time is within the hours. What goes on after midnight belongs to the day on which it began.
func (h *hours) hold(now time.Time) bool {
	today := int(now.Weekday()+6)%7 + 1
	yesterday := (today+5)%7 + 1
	minute := now.Hour()*60 + now.Minute()
	if len(h.spans) == 0 {
		return h.on(today)
	}
	for _, s := range h.spans {
		switch {
		case s[0] < s[1]:
			if h.on(today) && s[0] <= minute && minute < s[1] {
				return true
			}
		case minute >= s[0] && h.on(today), minute < s[1] && h.on(yesterday):
			return true
		}
	}
	return false
}

func (h *hours) on(day int) bool { return h.all || h.days[day] }

// parse reads the two lists; field names the one that is wrong.
func (o *OffPeak) parse() (h hours, field string, err error) {
	h.all = strings.TrimSpace(o.Days) == ""
	for _, part := range parts(o.Days) {
		from, to, err := ends(part, 1, 7, strconv.Atoi)
		if err != nil {
			return h, "days", err
		}
		for day := from; ; day = day%7 + 1 {
			h.days[day] = true
			if day == to {
				break
			}
		}
	}
	for _, part := range parts(o.Hours) {
		if !strings.Contains(part, "-") {
			return h, "hours", fmt.Errorf("%q is no span such as 01-04", part)
		}
		from, to, err := ends(part, 0, 24*60, minutes)
		if err != nil {
			return h, "hours", err
		}
		if from == to {
			return h, "hours", fmt.Errorf("%q is empty", part)
		}
		h.spans = append(h.spans, [2]int{from % (24 * 60), to})
	}
	return h, "", nil
}

func parts(list string) (out []string) {
	for part := range strings.SplitSeq(list, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

// ends reads "a-b", or "a" for both.
func ends(part string, lowest, highest int, number func(string) (int, error)) (from, to int, err error) {
	first, last, span := strings.Cut(part, "-")
	if !span {
		last = first
	}
	for i, text := range []string{first, last} {
		n, err := number(strings.TrimSpace(text))
		if err != nil || n < lowest || n > highest {
			return 0, 0, fmt.Errorf("%q is out of place in %q", strings.TrimSpace(text), part)
		}
		if i == 0 {
			from = n
		} else {
			to = n
		}
	}
	return from, to, nil
}

// minutes reads "HH" or "HH:MM".
func minutes(text string) (int, error) {
	hour, minute, _ := strings.Cut(text, ":")
	h, err := strconv.Atoi(hour)
	if err != nil || minute == "" {
		return h * 60, err
	}
	m, err := strconv.Atoi(minute)
	if err != nil || m < 0 || m > 59 {
		return 0, fmt.Errorf("%q is no minute", minute)
	}
	return h*60 + m, nil
}

// price checks what a model is said to cost.
func (v *validator) price(path string, p *Price) {
	if p == nil || p.OffPeak == nil {
		return
	}
	if _, field, err := p.OffPeak.parse(); err != nil {
		v.fail(path+".off_peak."+field, "Invalid "+field, err.Error()+`; days are 1 (Monday) to 7, such as "1-5" or "6,7", hours are UTC, such as "01-04,16:30-00:30".`)
	}
	if p.OffPeak.Factor < 0 || p.OffPeak.Factor > 100 {
		v.fail(path+".off_peak.factor", "Invalid factor", "The price is multiplied by it, so 0.5 is half the price.")
	}
	if p.OffPeak.Factor == 0 {
		v.fail(path+".off_peak", "Factor is missing", "The price is multiplied by it on these days and hours, so 0.5 is half the price.")
	}
}
