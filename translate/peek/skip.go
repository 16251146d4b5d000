package peek

import "bytes"

func fail(at int, reason string) error { return &SyntaxError{at, reason} }

// trailing complains of anything but white space from i on.
func trailing(src []byte, i int, reason string) error {
	if i = space(src, i); i != len(src) {
		return fail(i, reason)
	}
	return nil
}

// space returns the offset of the first byte from i on that is no white space.
func space(src []byte, i int) int {
	for i < len(src) && (src[i] == ' ' || src[i] == '\n' || src[i] == '\t' || src[i] == '\r') {
		i++
	}
	return i
}

// skip returns the offset just past the value that begins at i.
func skip(src []byte, i int) (int, error) {
	if i == len(src) {
		return 0, fail(i, "no value")
	}
	switch src[i] {
	case '{', '[':
		return skipNested(src, i)
	case '"':
		end := stringEnd(src, i)
		if end < 0 {
			return 0, fail(i, "string does not end")
		}
		return end, nil
	}
	end := i
	for end < len(src) && isWord(src[end]) {
		end++
	}
	if end == i {
		return 0, fail(i, "no value")
	}
	return end, nil
}

// skipNested passes over an object or array. It only looks at what stands outside strings, and counts instead of
// recursing, so that deep nesting costs nothing; of the outermost 64 levels it also checks that brackets are of a kind.
func skipNested(src []byte, start int) (int, error) {
	var kinds uint64
	depth := 0
	for i := start; i < len(src); i++ {
		switch c := src[i]; c {
		case '"':
			end := stringEnd(src, i)
			if end < 0 {
				return 0, fail(i, "string does not end")
			}
			i = end - 1
		case '{', '[':
			// The letter case bit tells braces from brackets; shifts of 64 and more give 0.
			kinds |= uint64(c>>5&1) << depth
			depth++
		case '}', ']':
			depth--
			if depth < 64 && kinds>>depth != uint64(c>>5&1) {
				return 0, fail(i, "brackets do not match")
			}
			if depth == 0 {
				return i + 1, nil
			}
			kinds &^= 1 << depth
		}
	}
	return 0, fail(start, "brackets are not closed")
}

// stringEnd returns the offset just past the string whose opening quote is at i, -1 if it does not end.
func stringEnd(src []byte, i int) int {
	for i++; ; {
		n := bytes.IndexByte(src[i:], '"')
		if n < 0 {
			return -1
		}
		i += n + 1
		if src[i-2] != '\\' || !escaped(src[:i-1]) {
			return i
		}
	}
}

// escaped tells whether an odd number of backslashes ends b. The opening quote is in b, so it never runs out.
func escaped(b []byte) bool {
	i := len(b)
	for i > 0 && b[i-1] == '\\' {
		i--
	}
	return (len(b)-i)%2 == 1
}

// isWord tells whether c can be part of a number or literal. NaN and Infinity, which Python writes, pass.
func isWord(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '+' || c == '.'
}
