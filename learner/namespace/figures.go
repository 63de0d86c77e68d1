package namespace

// Watches returns the number of watches of all connections.
func (s *Service) Watches() int { return s.watches.Taken() }
