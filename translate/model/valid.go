package model

// Valid reports whether src is one JSON value, as encoding/json sees it; it is many times faster. Whoever copies raw values
// has to know, since package peek does not look into them.
func Valid(src []byte) bool {
	i := value(src, blank(src, 0), 0)
	return i >= 0 && blank(src, i) == len(src)
}

// ValidObject reports whether src is one JSON object.
func ValidObject(src []byte) bool {
	i := blank(src, 0)
	return i < len(src) && src[i] == '{' && Valid(src)
}

// maxNesting is encoding/json's own limit.
const maxNesting = 10_000

// blank returns the offset of the first byte from i on that is no white space.
func blank(src []byte, i int) int {
	for i < len(src) && (src[i] == ' ' || src[i] == '\n' || src[i] == '\t' || src[i] == '\r') {
		i++
	}
	return i
}

// value returns the offset just past the value at i, -1 if there is none. So do all below.
func value(src []byte, i, depth int) int {
	if i >= len(src) {
		return -1
	}
	switch c := src[i]; c {
	case '"':
		return text(src, i)
	case '{':
		return nested(src, i, depth+1, '}')
	case '[':
		return nested(src, i, depth+1, ']')
	case 't':
		return word(src, i, "true")
	case 'f':
		return word(src, i, "false")
	case 'n':
		return word(src, i, "null")
	}
	return number(src, i)
}

// nested reads an object or an array, which closes with end.
func nested(src []byte, i, depth int, end byte) int {
	if depth > maxNesting {
		return -1
	}
	i = blank(src, i+1)
	if i < len(src) && src[i] == end {
		return i + 1
	}
	for {
		if end == '}' {
			if i = key(src, i); i < 0 {
				return -1
			}
		}
		if i = value(src, i, depth); i < 0 {
			return -1
		}
		i = blank(src, i)
		if i == len(src) {
			return -1
		}
		switch src[i] {
		case end:
			return i + 1
		case ',':
			i = blank(src, i+1)
		default:
			return -1
		}
	}
}

// key reads a key and its colon, up to where the value begins.
func key(src []byte, i int) int {
	if i == len(src) || src[i] != '"' {
		return -1
	}
	if i = text(src, i); i < 0 {
		return -1
	}
	i = blank(src, i)
	if i == len(src) || src[i] != ':' {
		return -1
	}
	return blank(src, i+1)
}

func text(src []byte, i int) int {
	for i++; i < len(src); i++ {
		c := src[i]
		if !special[c] {
			continue
		}
		switch c {
		case '"':
			return i + 1
		case '\\':
			if i = escape(src, i); i < 0 {
				return -1
			}
		default:
			return -1
		}
	}
	return -1
}

// escape returns the offset of the last byte of the escape at i.
func escape(src []byte, i int) int {
	if i+1 >= len(src) {
		return -1
	}
	switch src[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 1
	case 'u':
		if i+6 > len(src) {
			return -1
		}
		for _, c := range src[i+2 : i+6] {
			if (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'f') {
				return -1
			}
		}
		return i + 5
	}
	return -1
}

func word(src []byte, i int, w string) int {
	if len(src)-i < len(w) || string(src[i:i+len(w)]) != w {
		return -1
	}
	return i + len(w)
}

func number(src []byte, i int) int {
	if src[i] == '-' {
		i++
	}
	switch n := digits(src, i); {
	case n == i, src[i] == '0' && n > i+1:
		return -1
	default:
		i = n
	}
	if i < len(src) && src[i] == '.' {
		n := digits(src, i+1)
		if n == i+1 {
			return -1
		}
		i = n
	}
	if i < len(src) && src[i]|0x20 == 'e' {
		i++
		if i < len(src) && (src[i] == '+' || src[i] == '-') {
			i++
		}
		n := digits(src, i)
		if n == i {
			return -1
		}
		i = n
	}
	return i
}

func digits(src []byte, i int) int {
	for i < len(src) && src[i] >= '0' && src[i] <= '9' {
		i++
	}
	return i
}
