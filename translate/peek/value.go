package peek

import (
	"bytes"
	"math"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Kind tells by its first byte what a raw value is: 's' string, 'n' number, 'o' object, 'a' array, 't' true, 'f' false,
// 'z' null, 0 none of these.
func Kind(raw []byte) byte {
	if len(raw) == 0 {
		return 0
	}
	switch c := raw[0]; c {
	case '"':
		return 's'
	case '{':
		return 'o'
	case '[':
		return 'a'
	case 't', 'f':
		return c
	case 'n':
		return 'z'
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return 'n'
	}
	return 0
}

// IsNull tells whether raw is null.
func IsNull(raw []byte) bool { return string(raw) == "null" }

// Bool returns the value of true and false; ok is false for anything else.
func Bool(raw []byte) (v, ok bool) {
	v = string(raw) == "true"
	return v, v || string(raw) == "false"
}

// Int returns the value of a JSON number that is integral, however it is written: 12, 12.0 and 1e3 are. It reports false
// for anything else, and for what does not fit.
func Int(raw []byte) (int64, bool) {
	digits, negative := bytes.CutPrefix(raw, []byte("-"))
	whole := leadingDigits(digits)
	if whole == 0 || whole > 1 && digits[0] == '0' {
		return 0, false
	}
	var n decimal
	if !n.add(digits[:whole]) {
		return 0, false
	}
	rest := digits[whole:]
	if len(rest) > 0 && rest[0] == '.' {
		fraction := leadingDigits(rest[1:])
		if fraction == 0 || !n.add(rest[1:1+fraction]) {
			return 0, false
		}
		n.exponent -= fraction
		rest = rest[1+fraction:]
	}
	e, ok := exponent(rest)
	if !ok {
		return 0, false
	}
	n.exponent += e
	return n.int64(negative)
}

func leadingDigits(b []byte) int {
	n := 0
	for n < len(b) && b[n] >= '0' && b[n] <= '9' {
		n++
	}
	return n
}

// exponent reads what may follow the digits of a number.
func exponent(b []byte) (int, bool) {
	if len(b) == 0 {
		return 0, true
	}
	if b[0]|0x20 != 'e' {
		return 0, false
	}
	b = b[1:]
	sign := 1
	if len(b) > 0 && (b[0] == '+' || b[0] == '-') {
		if b[0] == '-' {
			sign = -1
		}
		b = b[1:]
	}
	if n := leadingDigits(b); n == 0 || n != len(b) {
		return 0, false
	}
	e := 0
	for _, c := range b {
		e = min(e*10+int(c-'0'), math.MaxInt32)
	}
	return sign * e, true
}

// decimal is mantissa · 10^exponent, where the mantissa does not end in a zero. That makes it integral just if the
// exponent is not negative, and too large as soon as the mantissa is.
type decimal struct {
	mantissa uint64
	exponent int
}

// add puts digits at the end; false if the mantissa gets larger than any int64.
func (n *decimal) add(digits []byte) bool {
	for _, c := range digits {
		n.exponent++
		if c == '0' {
			continue
		}
		if !n.scale() || n.mantissa > math.MaxUint64-uint64(c-'0') {
			return false
		}
		n.mantissa += uint64(c - '0')
	}
	return true
}

// scale multiplies the exponent into the mantissa; false if it gets too large for a uint64.
func (n *decimal) scale() bool {
	for ; n.exponent > 0 && n.mantissa > 0; n.exponent-- {
		if n.mantissa > math.MaxUint64/10 {
			return false
		}
		n.mantissa *= 10
	}
	n.exponent = 0
	return true
}

func (n *decimal) int64(negative bool) (int64, bool) {
	if n.mantissa == 0 {
		return 0, true
	}
	if n.exponent < 0 || !n.scale() {
		return 0, false
	}
	if negative {
		return -int64(n.mantissa), n.mantissa <= 1<<63
	}
	return int64(n.mantissa), n.mantissa <= math.MaxInt64
}

// String returns what a raw JSON string says; false if raw is no valid string. As in encoding/json, bytes that are no
// UTF-8 and lone surrogates become U+FFFD. Only the result is allocated.
func String(raw []byte) (string, bool) {
	body, ok := unquoted(raw)
	if !ok {
		return "", false
	}
	n := plain(body)
	if n == len(body) {
		return string(body), true
	}
	var b strings.Builder
	b.Grow(len(body))
	for len(body) > 0 {
		b.Write(body[:n])
		body = body[n:]
		if len(body) == 0 {
			break
		}
		r, size := char(body)
		if size == 0 {
			return "", false
		}
		b.WriteRune(r)
		body = body[size:]
		n = plain(body)
	}
	return b.String(), true
}

// Equal tells whether raw is a JSON string that says s. It allocates nothing.
func Equal(raw []byte, s string) bool {
	body, ok := unquoted(raw)
	// An escape is longer than what it stands for.
	if !ok || len(body) < len(s) {
		return false
	}
	if bytes.IndexByte(body, '\\') < 0 {
		return string(body) == s
	}
	for len(body) > 0 {
		r, size := char(body)
		want, n := utf8.DecodeRuneInString(s)
		if size == 0 || n == 0 || r != want {
			return false
		}
		body, s = body[size:], s[n:]
	}
	return s == ""
}

func unquoted(raw []byte) ([]byte, bool) {
	if len(raw) < 2 || raw[0] != '"' || raw[len(raw)-1] != '"' {
		return nil, false
	}
	return raw[1 : len(raw)-1], true
}

// plain returns how many bytes at the start of b stand for themselves.
func plain(b []byte) int {
	for i, c := range b {
		if c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return i
		}
	}
	return len(b)
}

// badChar returns the offset of the first thing in b that a JSON string cannot hold, -1 if there is none.
func badChar(b []byte) int {
	for i := plain(b); i < len(b); i += plain(b[i:]) {
		_, size := char(b[i:])
		if size == 0 {
			return i
		}
		i += size
	}
	return -1
}

// char decodes the character at the start of b, the inside of a string; size 0 means that there is none.
func char(b []byte) (r rune, size int) {
	switch {
	case b[0] == '\\':
		return escape(b)
	case b[0] < ' ', b[0] == '"':
		return 0, 0
	}
	return utf8.DecodeRune(b)
}

func escape(b []byte) (r rune, size int) {
	if len(b) < 2 {
		return 0, 0
	}
	switch b[1] {
	case '"', '\\', '/':
		return rune(b[1]), 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	}
	r = hex(b)
	if r < 0 {
		return 0, 0
	}
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	if pair := utf16.DecodeRune(r, hex(b[6:])); pair != utf8.RuneError {
		return pair, 12
	}
	return utf8.RuneError, 6
}

// hex returns the number that \uXXXX at the start of b means, -1 if it does not stand there.
func hex(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return -1
	}
	var r rune
	for _, c := range b[2:6] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}
