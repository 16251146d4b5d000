package settings

import (
	"testing"
	"time"
)

func TestOffPeak(t *testing.T) {
	for _, c := range []struct {
		days, hours string
		in, out     []string // Tuesday is 2030-01-01
	}{
		{"", "", []string{"01 00:00", "06 23:59"}, nil},
		{"1-5", "01-04", []string{"01 01:00", "04 03:59"}, []string{"01 00:59", "01 04:00", "05 02:00"}},
		{"6,7", "", []string{"05 00:00", "06 23:00"}, []string{"04 23:59", "07 00:00"}},
		{"5-1", "", []string{"04 12:00", "07 12:00"}, []string{"01 12:00", "03 12:00"}},
		{"", "16:30-00:30", []string{"01 16:30", "02 00:29"}, []string{"01 16:29", "02 00:30"}},
		{"2", "22-02", []string{"01 23:00", "02 01:59"}, []string{"01 01:00", "02 22:00"}},
		{"", "10-24, 04-06", []string{"01 23:59", "01 05:00"}, []string{"01 06:00", "01 00:00"}},
	} {
		o := OffPeak{Days: c.days, Hours: c.hours, Factor: 0.5}
		at := o.At()
		if at == nil {
			t.Errorf("%q %q is refused", c.days, c.hours)
			continue
		}
		for want, list := range map[float64][]string{0.5: c.in, 1: c.out} {
			for _, text := range list {
				now, err := time.ParseInLocation("2006-01-02 15:04", "2030-01-"+text, time.UTC)
				if err != nil {
					t.Fatal(err)
				}
				if got := at(now.In(time.FixedZone("", 5*3600))); got != want {
					t.Errorf("%q %q at %s: %v", c.days, c.hours, text, got)
				}
			}
		}
	}
	for _, o := range []OffPeak{{Days: "0"}, {Days: "x"}, {Hours: "1-2-3"}, {Hours: "24:30-3"}, {Hours: "03-03"}, {Hours: "-1"}, {Hours: "01:60-02"}} {
		if o.At() != nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}
