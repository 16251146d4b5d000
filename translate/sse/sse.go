// Package sse splits the chunks of an event stream into its frames without losing a byte; it knows nothing of what the
// events mean and never writes any.
package sse

import "bytes"

const (
	usual   = 256 << 10 // bytes of data that are kept of one event unless the scanner has a limit of its own
	tail    = 64 << 10  // bytes of data that are kept of a larger one
	maxName = 1 << 10   // bytes that are kept of an event's name
	maxHead = 10        // bytes that tell what a line is: a byte order mark, "event:" and a space
)

// Event is one frame of an event stream. Name and Data are valid until the next call of Next, Feed or Finish.
type Event struct {
	Name    []byte // the event field, nil if there is none or it is empty; at most 1 KiB
	Data    []byte // the data lines joined by \n; nil if there are none
	Comment bool   // only comments, other fields, a name or nothing at all: carries no data
	Cut     bool   // more data than the scanner's limit: Data holds only their last 64 KiB
	End     int    // offset just past the frame's blank line in the chunk given to Feed last
}

// Scanner splits chunks into frames. Lines end in CRLF, CR or LF, in any mixture; chunks may be split anywhere. A frame
// ends at its blank line at once: the LF of a CRLF that is split between chunks belongs to the bytes of the next frame.
// It allocates nothing once its buffers have grown, and does not copy data on one line that lies inside one chunk. The
// zero value is ready.
type Scanner struct {
	Limit int // bytes of data that are kept of one event; 0 = 256 KiB

	chunk  []byte
	pos    int // first byte of chunk not read yet
	lf, cr int // offsets of the next LF and CR, if not before pos

	afterCR bool // the last chunk ended in CR: an LF belongs to it
	begun   bool // a byte of the frame was read
	later   bool // the first line, which may begin with a byte order mark, is over

	// The line that the last chunk ended in the middle of.
	head  [maxHead]byte // its beginning, as long as it is not known what the line is
	heads int           // bytes in head
	field field         // what the line is, then its value goes where it belongs as it comes

	// The frame so far.
	lines  int    // data lines
	cut    bool   // data were thrown away
	data   []byte // own memory: what is kept of the data, if not in dataIn
	dataIn []byte // the only data line, as part of chunk
	name   []byte // own memory: the name, if not in nameIn
	nameIn []byte // the name as part of chunk
}

type field uint8

const (
	unknown field = iota // the line has not told yet
	other                // a comment or a field of no interest
	data
	name
)

// Feed hands over the next chunk, which must not change behind the newest event's end until Next has returned false. That
// must also have happened to the chunk before.
func (s *Scanner) Feed(chunk []byte) {
	s.chunk, s.pos, s.lf, s.cr = chunk, 0, -1, -1
	if len(chunk) == 0 {
		return
	}
	if s.afterCR && chunk[0] == '\n' {
		s.pos = 1
	}
	s.afterCR = false
}

// Next reads the next frame that ends in the chunk; false if there is none.
func (s *Scanner) Next(ev *Event) bool {
	if s.plain(ev) {
		return true
	}
	for s.pos < len(s.chunk) {
		end := s.lineEnd()
		part := s.chunk[s.pos:end]
		if end == len(s.chunk) {
			s.pos = end
			s.begun = true
			s.addPart(part)
			break
		}
		s.pos = end + 1
		if s.chunk[end] == '\r' {
			s.afterCR = s.pos == len(s.chunk)
			if !s.afterCR && s.chunk[s.pos] == '\n' {
				s.pos++
			}
		}
		if s.endLine(part) {
			s.emit(ev)
			return true
		}
	}
	s.save()
	return false
}

// plain reads a frame as nearly all are: one line of data, a name before it or none, and the blank line, with LFs, in one
// chunk. It leaves everything else alone.
func (s *Scanner) plain(ev *Event) bool {
	if s.begun || !s.later {
		return false
	}
	if s.cr < s.pos {
		s.cr = s.index('\r')
	}
	var called []byte
	at, frames := s.pos, s.chunk[:s.cr]
	if value, end := line(frames, at, nameField); end > 0 && len(value) > 0 && len(value) <= maxName {
		called, at = value, end
	}
	said, end := line(frames, at, dataField)
	if end <= 0 || end >= len(frames) || frames[end] != '\n' || len(said) > s.limit() {
		return false
	}
	s.pos = end + 1
	*ev = Event{Name: called, Data: said, End: s.pos}
	return true
}

// line reads the line at an offset if it is a field of that name: the value and the offset behind its LF, 0 if it is not.
func line(chunk []byte, at int, name []byte) (value []byte, end int) {
	rest := chunk[at:]
	if len(rest) <= len(name) || rest[len(name)] != ':' || !bytes.HasPrefix(rest, name) {
		return nil, 0
	}
	n := bytes.IndexByte(rest, '\n')
	if n < 0 {
		return nil, 0
	}
	if value = rest[len(name)+1 : n]; len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	return value, at + n + 1
}

// Finish reads the frame that the stream ended in the middle of; false if it has no data. The stream is over then.
func (s *Scanner) Finish(ev *Event) bool {
	if s.heads > 0 || s.field != unknown {
		s.endLine(nil)
	}
	found := s.lines > 0
	s.emit(ev)
	return found
}

func (s *Scanner) limit() int {
	if s.Limit > 0 {
		return s.Limit
	}
	return usual
}

// Pending tells whether a frame has begun but not ended, in what Next has read so far.
func (s *Scanner) Pending() bool { return s.begun }

// Reset makes the scanner ready for another stream; it keeps its buffers.
func (s *Scanner) Reset() { *s = Scanner{data: s.data[:0], name: s.name[:0]} }

// lineEnd returns the offset of the next CR or LF, the chunk's length if there is none. Both are remembered, as looking
// for the one that a stream never uses would take the whole chunk for each line.
func (s *Scanner) lineEnd() int {
	if s.lf < s.pos {
		s.lf = s.index('\n')
	}
	if s.cr < s.pos {
		s.cr = s.index('\r')
	}
	return min(s.lf, s.cr)
}

func (s *Scanner) index(c byte) int {
	if n := bytes.IndexByte(s.chunk[s.pos:], c); n >= 0 {
		return s.pos + n
	}
	return len(s.chunk)
}

// endLine reads the rest of a line; true if the line is blank.
func (s *Scanner) endLine(rest []byte) (blank bool) {
	if s.heads == 0 && s.field == unknown {
		rest = s.skipMark(rest)
		s.begun = s.begun || len(rest) > 0
		s.whole(rest)
		return len(rest) == 0
	}
	s.addPart(rest)
	if s.field == unknown {
		line := s.skipMark(s.head[:s.heads])
		blank = len(line) == 0
		s.begin(parse(line))
	}
	s.heads, s.field = 0, unknown
	return blank
}

// whole takes a line that lies inside the chunk.
func (s *Scanner) whole(line []byte) {
	switch f, value := parse(line); {
	case f == data && s.lines == 0:
		s.dataIn, s.lines = value, 1
	case f == name:
		s.name, s.nameIn = s.name[:0], value[:min(len(value), maxName)]
	case f == data:
		s.begin(f, value)
		s.field = unknown
	}
}

// addPart takes a part of a line that began in an earlier chunk or does not end in this one.
func (s *Scanner) addPart(part []byte) {
	if s.field == unknown {
		n := copy(s.head[s.heads:], part)
		s.heads += n
		if s.heads < maxHead {
			return
		}
		part = part[n:]
		s.begin(parse(s.skipMark(s.head[:])))
	}
	s.add(part)
}

// begin starts a line whose value so far goes into own memory.
func (s *Scanner) begin(f field, value []byte) {
	s.field = f
	switch f {
	case data:
		s.save()
		if s.lines > 0 {
			s.keep(newline)
		}
		s.lines++
	case name:
		s.name, s.nameIn = s.name[:0], nil
	}
	s.add(value)
}

// add appends to the value of the line that was begun.
func (s *Scanner) add(value []byte) {
	switch s.field {
	case data:
		s.keep(value)
	case name:
		s.name = append(s.name, value[:min(len(value), maxName-len(s.name))]...)
	}
}

// keep appends to the data; of too much of it only the end.
func (s *Scanner) keep(p []byte) {
	if len(s.data)+len(p) > s.limit() {
		s.cut = true
		p = p[max(0, len(p)-tail):]
		old := min(len(s.data), tail-len(p))
		s.data = s.data[:copy(s.data, s.data[len(s.data)-old:])]
	}
	s.data = append(s.data, p...)
}

// save copies what lies in the chunk, as the caller may use that again.
func (s *Scanner) save() {
	if s.dataIn != nil {
		p := s.dataIn
		s.dataIn = nil
		s.keep(p)
	}
	if s.nameIn != nil {
		s.name, s.nameIn = append(s.name[:0], s.nameIn...), nil
	}
}

// emit hands the frame out and starts over. Its own memory is only written to by the next call.
func (s *Scanner) emit(ev *Event) {
	*ev = Event{Comment: s.lines == 0, End: s.pos}
	switch {
	case len(s.nameIn) > 0:
		ev.Name = s.nameIn
	case len(s.name) > 0:
		ev.Name = s.name
	}
	if s.lines > 0 {
		ev.Data = s.dataIn
		if ev.Data == nil {
			ev.Data = s.data
		}
		if ev.Data == nil {
			ev.Data = []byte{} // There are data, though empty ones.
		}
		if ev.Cut = s.cut || len(ev.Data) > s.limit(); ev.Cut {
			ev.Data = ev.Data[len(ev.Data)-tail:]
		}
	}
	s.begun, s.lines, s.cut = false, 0, false
	s.data, s.dataIn, s.name, s.nameIn = s.data[:0], nil, s.name[:0], nil
}

// skipMark takes the byte order mark off the first line.
func (s *Scanner) skipMark(line []byte) []byte {
	if s.later {
		return line
	}
	s.later = true
	return bytes.TrimPrefix(line, byteOrderMark)
}

// parse tells what a line is and what it says.
func parse(line []byte) (field, []byte) {
	f, value := other, line
	switch {
	case bytes.HasPrefix(line, dataField):
		f, value = data, line[len(dataField):]
	case bytes.HasPrefix(line, nameField):
		f, value = name, line[len(nameField):]
	}
	switch {
	case f == other, len(value) == 0: // A field without a colon is empty.
		return f, value
	case value[0] != ':':
		return other, value
	case len(value) > 1 && value[1] == ' ':
		return f, value[2:]
	}
	return f, value[1:]
}

var (
	byteOrderMark = []byte("\xef\xbb\xbf")
	dataField     = []byte("data")
	nameField     = []byte("event")
	newline       = []byte("\n")
)
