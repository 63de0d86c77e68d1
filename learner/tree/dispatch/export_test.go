package dispatch

// KeptTrees counts the trees that are kept for reads. Only the goroutine that applies the log calls it.
func (h *Hub) KeptTrees() (n int) {
	for _, k := range h.kept {
		if k.get() != nil {
			n++
		}
	}
	return n
}

// ReservedTrees counts the places that are reserved for trees.
func (h *Hub) ReservedTrees() int64 { return h.reserved.Load() }
