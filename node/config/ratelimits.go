package config

// RateLimits bound the requests of clients to this node per second. 0 is no limit.
type RateLimits struct {
	// MaxOpensPerSecond, MaxResumesPerSecond and MaxWritesPerSecond are rate limits of the whole node.
	MaxOpensPerSecond, MaxResumesPerSecond, MaxWritesPerSecond int
	// MaxOpensAndResumesPerSecondPerAddress and MaxOpensAndResumesPerSecondPerClient are rate limits for the opens
	// and resumes together of one address, or of one client.
	MaxOpensAndResumesPerSecondPerAddress, MaxOpensAndResumesPerSecondPerClient int
	// MaxConnectionsPerAddress bounds the connections of one address.
	MaxConnectionsPerAddress int
}

// Resources says how much of the machine a node uses before it refuses requests that would use more.
type Resources struct {
	// DiskLimit is the share of the data directory's file system that may be used, in percent; 0 means a share
	// that depends on its size. Beyond it the disk is full.
	DiskLimit int
	// MemoryLimit is in bytes; 0 means that of the control group.
	MemoryLimit uint64
}

// maxPerSecond is the largest rate: at a larger one, the time between two tokens would be below the resolution of the
// clock.
const maxPerSecond = 10_000_000

// rateLimitSettings are the settings of [RateLimits]. The defaults are above what a node of two or four processors can
// do, so that the rate limits matter in a herd only. They also bound memory: each open leaves a request id for the
// largest timeout (O2 idempotent opens). At 50,000 opens a second at each of three nodes, with timeouts of up to 40 s,
// these are 6 million ids, which count as 0.6 GB: together with the largest number of sessions they are within
// max_state_bytes.
func rateLimitSettings() []setting {
	rate := span[int]{0, maxPerSecond}
	return []setting{
		number("max_opens_per_second", "50000", rate,
			func(c *Config) *int { return &c.RateLimits.MaxOpensPerSecond }).
			helps("opens that this node admits; 0: no limit; at most max_resumes_per_second"),
		number("max_resumes_per_second", "200000", rate,
			func(c *Config) *int { return &c.RateLimits.MaxResumesPerSecond }).
			helps("resumes that this node admits; 0: no limit"),
		number("max_writes_per_second", "200000", rate,
			func(c *Config) *int { return &c.RateLimits.MaxWritesPerSecond }).
			helps("tree writes that this node admits; 0: no limit"),
		number("max_opens_and_resumes_per_second_per_address", "0", rate,
			func(c *Config) *int { return &c.RateLimits.MaxOpensAndResumesPerSecondPerAddress }).
			helps("opens and resumes of an IP address (IPv6: /64); 0: no limit"),
		number("max_opens_and_resumes_per_second_per_client", "0", rate,
			func(c *Config) *int { return &c.RateLimits.MaxOpensAndResumesPerSecondPerClient }).
			helps("opens and resumes of a verified name, else of a client name; clients without a name share one limit; " +
				"0: no limit"),
		number("max_connections_per_address", "0", span[int]{0, 10_000_000},
			func(c *Config) *int { return &c.RateLimits.MaxConnectionsPerAddress }).
			helps("connections of an IP address (IPv6: /64) to client_listen, and again to zk_listen; 0: only the " +
				"fair share of max_connections"),
	}
}

func resourceSettings() []setting {
	return []setting{
		number("disk_limit", "0", span[int]{0, 100},
			func(c *Config) *int { return &c.Resources.DiskLimit }).
			helps("percent of data_dir's file system that may be used; beyond it other nodes lead and serve clients; 0: " +
				"90, or all but 4 GiB of a larger disk than 40 GiB; 100: no limit"),
		number("memory_limit", "0", span[uint64]{0, 1 << 50},
			func(c *Config) *uint64 { return &c.Resources.MemoryLimit }).
			helps("memory of the Go runtime in bytes, unless GOMEMLIMIT is set; near it the node refuses opens, then resumes " +
				"and writes; 0: 90 % of the control group's limit, else 75 % of the machine's memory"),
	}
}

// rateLimits checks the order of the rate limits: resumes come before opens.
func (k *checker) rateLimits() {
	above := func(a, b int) bool { return b != 0 && (a == 0 || a > b) }
	if g := k.c.RateLimits; above(g.MaxOpensPerSecond, g.MaxResumesPerSecond) {
		k.clash("must be at most "+k.other("max_resumes_per_second")+
			", where 0 (no limit) is the largest value: sessions that exist come before new ones",
			"max_opens_per_second", "max_resumes_per_second")
	}
}
