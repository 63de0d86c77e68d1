package namespace

// Watches returns the number of watches of all connections, and what they count in bytes (V1).
func (s *Service) Watches() (watches, bytes int) {
	for _, r := range s.lanes {
		watches += r.Watches()
	}
	return watches, s.rooms.Watches.Taken()
}
