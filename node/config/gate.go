package config

// mostPerSecond is the largest budget: above it a token comes in less than what moments are told apart by.
const mostPerSecond = 10_000_000

// gateSettings are the budgets of what clients ask of this node. The defaults are meant to be above what a node does
// without a herd, so that they bind in a herd only.
func gateSettings() []setting {
	budget := span[int]{0, mostPerSecond}
	return []setting{
		number("max_opens_per_second", "10000", budget,
			func(c *Config) *int { return &c.MaxOpensPerSecond }).
			helps(
				"opens that this node takes on in a second; the rest is told when to come back; 0 is no limit; at " +
					"most max_resumes_per_second",
			),
		number("max_resumes_per_second", "20000", budget,
			func(c *Config) *int { return &c.MaxResumesPerSecond }).
			helps(
				"resumes that this node takes on in a second; the rest is told when to come back; 0 is no limit; at " +
					"most max_touches_per_second",
			),
		number("max_touches_per_second", "1000000", budget,
			func(c *Config) *int { return &c.MaxTouchesPerSecond }).
			helps(
				"touches that this node takes on in a second: messages on streams, tokens of TouchSessions; 0 is no " +
					"limit",
			),
		number("max_arrivals_per_second_per_address", "0", budget,
			func(c *Config) *int { return &c.MaxArrivalsPerSecondPerAddress }).
			helps(
				"opens and resumes together that come from one IP address (IPv6: one /64) in a second; 0 is no limit",
			),
		number("max_arrivals_per_second_per_principal", "0", budget,
			func(c *Config) *int { return &c.MaxArrivalsPerSecondPerPrincipal }).
			helps(
				"opens and resumes together of one client certificate, or of one name that clients give themselves, " +
					"in a second; those without one share one; 0 is no limit",
			),
		number("max_connections_per_address", "0", span[int]{0, 10_000_000},
			func(c *Config) *int { return &c.MaxConnectionsPerAddress }).
			helps(
				"network connections of one IP address (IPv6: one /64) to this node; 0 is no limit but its share of " +
					"max_connections",
			),
	}
}

// gate holds the order of the budgets: sessions that live go before those that come back, and these before new ones.
func (k *checker) gate() {
	above := func(a, b int) bool { return b != 0 && (a == 0 || a > b) }
	if c := k.c; above(c.MaxOpensPerSecond, c.MaxResumesPerSecond) {
		k.clash("must be at most "+k.other("max_resumes_per_second")+
			", and 0, no limit, is above it: sessions that exist come before new ones",
			"max_opens_per_second", "max_resumes_per_second")
	}
	if c := k.c; above(c.MaxResumesPerSecond, c.MaxTouchesPerSecond) {
		k.clash("must be at most "+k.other("max_touches_per_second")+
			", and 0, no limit, is above it: sessions that are kept alive come before those that come back",
			"max_resumes_per_second", "max_touches_per_second")
	}
}
