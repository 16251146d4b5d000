package chatmessages

// arguments follows the pieces of a call's arguments to tell where their JSON object ends. The pieces are as they stand
// between the quotes of a JSON string, and none ends within an escape.
type arguments struct {
	depth    int
	inString bool
	escaped  bool
	begun    bool // The first byte that is no white space was a brace.
	odd      bool // It was something else.
	filled   bool // The object has a member.
	complete bool
}

// read takes the next piece and returns how much of it belongs to the object: what follows its end does not.
func (a *arguments) read(piece []byte) int {
	for i := 0; i < len(piece); {
		if a.complete || a.odd {
			return i
		}
		c, n := plainByte(piece[i:])
		i += n
		a.step(c)
	}
	return len(piece)
}

func (a *arguments) step(c byte) {
	switch {
	case a.escaped:
		a.escaped = false
	case a.inString:
		a.escaped = c == '\\'
		a.inString = c != '"'
	case c == ' ':
	case !a.begun && c != '{':
		a.odd = true
	case c == '{', c == '[':
		a.filled = a.filled || a.begun
		a.begun = true
		a.depth++
	case c == '}', c == ']':
		a.depth--
		a.complete = a.depth == 0
	default:
		a.filled = true
		a.inString = c == '"'
	}
}

// plainByte is the first byte that an escaped text stands for, as far as JSON cares: white space is a blank, and what is not
// ASCII some letter. n is how long it is.
func plainByte(b []byte) (c byte, n int) {
	if b[0] != '\\' || len(b) < 2 {
		return b[0], 1
	}
	switch b[1] {
	case 'n', 'r', 't':
		return ' ', 2
	case 'b', 'f':
		return 'x', 2
	case 'u':
		return hexByte(b), min(len(b), 6)
	}
	return b[1], 2
}

func hexByte(b []byte) byte {
	if len(b) < 6 || b[2] != '0' || b[3] != '0' {
		return 'x'
	}
	c := digit(b[4])<<4 | digit(b[5])
	switch c {
	case '\t', '\n', '\r':
		return ' '
	}
	return c
}

func digit(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}
