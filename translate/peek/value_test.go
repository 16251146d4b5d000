package peek

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"
)

func TestInt(t *testing.T) {
	for raw, want := range map[string]int64{
		"0": 0, "-0": 0, "0.0": 0, "0e99999999999": 0, "12": 12, "12.0": 12, "1e3": 1000, "1E+3": 1000, "1.5e1": 15,
		"1200e-2": 12, "-7": -7, "9223372036854775807": 1<<63 - 1, "-9223372036854775808": -1 << 63,
		"9223372036854775807.000": 1<<63 - 1, "12000000000000000000000e-21": 12, "0.0000000000000000000000012e25": 12,
		"100000000000000000000e-20": 1,
	} {
		if got, ok := Int([]byte(raw)); got != want || !ok {
			t.Errorf("%s: %d, %v", raw, got, ok)
		}
	}
	for _, raw := range []string{
		"", "-", "null", `"12"`, "true", "[]", "1.5", "1e-1", "12e-2", "9223372036854775808", "-9223372036854775809",
		"18446744073709551616", "1e19", "1e99999999999999999999", "-1e99999999999999999999", "01", "-01", "1.", ".5", "1e", "1e+", "1e1.5", "+1",
		"1 ", " 1", "0x10", "1_000", "1e5x", "--1", "NaN", "99999999999999999999999999",
	} {
		if got, ok := Int([]byte(raw)); ok {
			t.Errorf("%s: %d", raw, got)
		}
	}
}

// checkInt holds Int against math/big for a valid number.
func checkInt(raw []byte) bool {
	got, ok := Int(raw)
	if _, e, found := strings.Cut(strings.ToLower(string(raw)), "e"); found && len(strings.TrimLeft(e, "+-0")) > 4 {
		return true // math/big would build the whole number.
	}
	r, valid := new(big.Rat).SetString(string(raw))
	if !valid || !r.IsInt() || !r.Num().IsInt64() {
		return valid && !ok
	}
	return ok && r.Num().Int64() == got
}

func FuzzInt(f *testing.F) {
	for _, s := range []string{"0", "-12.50e2", "1e3", "9223372036854775808", "1e-3", "100000000000000000000e-20"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if _, ok := Int(raw); Kind(raw) != 'n' || !json.Valid(raw) || strings.TrimSpace(string(raw)) != string(raw) {
			if ok {
				t.Fatalf("%q is no number", raw)
			}
			return
		}
		if !checkInt(raw) {
			t.Fatalf("%q", raw)
		}
	})
}

func TestString(t *testing.T) {
	for raw, want := range map[string]string{
		`""`: "", `"a"`: "a", `"é😀"`: "é😀", `"\"\\\/\b\f\n\r\t"`: "\"\\/\b\f\n\r\t", `"\u00e9\u00E9"`: "éé",
		`"\ud83d\ude00!"`: "😀!", `"\ud83d"`: "\ufffd", `"\ud83dx"`: "\ufffdx", `"\ud83d\u0041"`: "\ufffdA",
		`"\ude00\ud83d"`: "\ufffd\ufffd", `"\ud83d\n"`: "\ufffd\n", "\"\xff\xffx\"": "\ufffd\ufffdx", `"\u0000"`: "\x00", "\"\x7f\"": "\x7f",
	} {
		got, ok := String([]byte(raw))
		if got != want || !ok {
			t.Errorf("%s: %q, %v", raw, got, ok)
		}
		if !strings.Contains(raw, "\xff") && !Equal([]byte(raw), want) {
			t.Errorf("%s does not equal %q", raw, want)
		}
		if Equal([]byte(raw), want+"x") || Equal([]byte(raw), "x"+want) || want != "" && Equal([]byte(raw), "") {
			t.Errorf("%s equals more than %q", raw, want)
		}
	}
	for _, raw := range []string{
		``, `"`, `a`, `"a`, `a"`, `null`, `1`, `{}`, "\"\n\"", `"\x"`, `"\u12"`, `"\u12g4"`, `"\"`, `"a"b"`,
	} {
		if got, ok := String([]byte(raw)); ok {
			t.Errorf("%s: %q", raw, got)
		}
	}
}

func FuzzString(f *testing.F) {
	for _, s := range []string{`""`, `"a"`, `"\ud83d\ude00"`, `"\ud83d\u0041\n"`, "\"\xff\\\"\"", `"\u00"`, `"a"b"`} {
		f.Add([]byte(s), "a")
	}
	f.Fuzz(func(t *testing.T, raw []byte, other string) {
		var want string
		valid := json.Unmarshal(raw, &want) == nil && raw[0] == '"' && raw[len(raw)-1] == '"'
		if !valid { // encoding/json also takes null, and white space around a string
			want = ""
		}
		got, ok := String(raw)
		if ok != valid || got != want {
			t.Fatalf("%q: %q, %v; want %q, %v", raw, got, ok, want, valid)
		}
		if utf8Text := strings.ToValidUTF8(string(raw)+other, "") == string(raw)+other; valid && utf8Text && (!Equal(raw, want) || Equal(raw, other) != (want == other)) {
			t.Fatalf("%q: Equal to %q %v, to %q %v", raw, want, Equal(raw, want), other, Equal(raw, other))
		}
	})
}

func TestLiterals(t *testing.T) {
	for raw, want := range map[string]byte{
		`"a"`: 's', `1`: 'n', `-1`: 'n', `{}`: 'o', `[]`: 'a', `true`: 't', `false`: 'f', `null`: 'z', ``: 0, `NaN`: 0, `}`: 0,
	} {
		if got := Kind([]byte(raw)); got != want {
			t.Errorf("%s: %q", raw, got)
		}
		v, ok := Bool([]byte(raw))
		if ok != (want == 't' || want == 'f') || v != (want == 't') {
			t.Errorf("%s: %v, %v", raw, v, ok)
		}
		if IsNull([]byte(raw)) != (want == 'z') {
			t.Errorf("%s null", raw)
		}
	}
	for _, raw := range []string{"tru", "nul", "TRUE", "True", "true "} {
		if _, ok := Bool([]byte(raw)); ok || IsNull([]byte(raw)) {
			t.Errorf("%s is a literal", raw)
		}
	}
}
