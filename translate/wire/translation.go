package wire

// ReadUsage takes a usage object of the chat or messages dialect into f.Usage, wherever it stood, for a translator that has
// read the event itself.
func (w *Wire) ReadUsage(raw []byte, f *Facts) {
	if w.Name == Messages {
		u := f.messages(raw)
		f.Usage.Merge(u.cumulative(f.Usage))
		return
	}
	f.openai(raw)
}
