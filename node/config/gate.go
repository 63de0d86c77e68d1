package config

// Gate are the budgets of what clients ask of this node. 0 is no limit.
type Gate struct {
	// MaxOpensPerSecond, MaxResumesPerSecond and MaxWritesPerSecond are budgets of the whole node.
	MaxOpensPerSecond, MaxResumesPerSecond, MaxWritesPerSecond int
	// MaxArrivalsPerSecondPerAddress and MaxArrivalsPerSecondPerPrincipal are budgets for the opens and resumes
	// together of one address, or of one client.
	MaxArrivalsPerSecondPerAddress, MaxArrivalsPerSecondPerPrincipal int
	// MaxConnectionsPerAddress bounds the connections of one address.
	MaxConnectionsPerAddress int
	Room                     Room
}

// Room says how much of the machine a node uses before it refuses what would take more.
type Room struct {
	// DiskLimit is the share of the data directory's file system that may be used, in percent; 0 means what its size
	// asks for. Beyond it the disk is full.
	DiskLimit int
	// MemoryLimit is in bytes; 0 means that of the control group.
	MemoryLimit uint64
}

// mostPerSecond is the largest budget: with a larger one, tokens would come closer together than moments are told
// apart.
const mostPerSecond = 10_000_000

// gateSettings are the settings of [Gate]. The defaults are above what a node of two or four processors can do, so that
// the budgets matter in a herd only. They also bound memory: each open leaves a request id for the largest timeout
// (O2). At 50,000 opens a second at each of three nodes, with timeouts of up to 40 s, these are 6 million ids, which
// count as 0.6 GB: together with the largest number of sessions they are within max_state_bytes.
func gateSettings() []setting {
	budget := span[int]{0, mostPerSecond}
	return []setting{
		number("max_opens_per_second", "50000", budget,
			func(c *Config) *int { return &c.Gate.MaxOpensPerSecond }).
			helps("opens that this node accepts in a second; it tells refused clients when to come back; 0 is no " +
				"limit; at most max_resumes_per_second"),
		number("max_resumes_per_second", "200000", budget,
			func(c *Config) *int { return &c.Gate.MaxResumesPerSecond }).
			helps("resumes that this node accepts in a second; it tells refused clients when to come back; 0 is no " +
				"limit"),
		number("max_writes_per_second", "200000", budget,
			func(c *Config) *int { return &c.Gate.MaxWritesPerSecond }).
			helps("writes of the tree that this node accepts in a second, in calls and on streams; it tells refused clients " +
				"when to come back; 0 is no limit"),
		number("max_arrivals_per_second_per_address", "0", budget,
			func(c *Config) *int { return &c.Gate.MaxArrivalsPerSecondPerAddress }).
			helps("opens and resumes together from one IP address (IPv6: one /64) in a second; 0 is no limit"),
		number("max_arrivals_per_second_per_principal", "0", budget,
			func(c *Config) *int { return &c.Gate.MaxArrivalsPerSecondPerPrincipal }).
			helps("opens and resumes together of one client certificate, or of one name that clients give themselves, " +
				"in a second; all clients without either share one budget; 0 is no limit"),
		number("max_connections_per_address", "0", span[int]{0, 10_000_000},
			func(c *Config) *int { return &c.Gate.MaxConnectionsPerAddress }).
			helps("network connections of one IP address (IPv6: one /64) to client_listen, and as many to zk_listen; 0 is " +
				"no limit but its share of max_connections"),
	}
}

func roomSettings() []setting {
	return []setting{
		number("disk_limit", "0", span[int]{0, 100},
			func(c *Config) *int { return &c.Gate.Room.DiskLimit }).
			helps("percent of the file system of data_dir that may be used: beyond it the disk is full, and other nodes lead " +
				"and serve the clients; 0: 90, and on a disk of more than 40 GiB all but 4 GiB; 100 is no limit; nodes may " +
				"differ"),
		number("memory_limit", "0", span[uint64]{0, 1 << 50},
			func(c *Config) *uint64 { return &c.Gate.Room.MemoryLimit }).
			helps("bytes of memory that the Go runtime keeps within; opens, then resumes and writes, are refused near it; " +
				"0: nine tenths of the control group's limit, else three quarters of the machine's memory; GOMEMLIMIT comes first"),
	}
}

// gate checks the order of the budgets: resumes come before opens.
func (k *checker) gate() {
	above := func(a, b int) bool { return b != 0 && (a == 0 || a > b) }
	if g := k.c.Gate; above(g.MaxOpensPerSecond, g.MaxResumesPerSecond) {
		k.clash("must be at most "+k.other("max_resumes_per_second")+
			", where 0 (no limit) is the largest value: sessions that exist come before new ones",
			"max_opens_per_second", "max_resumes_per_second")
	}
}
