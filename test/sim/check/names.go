package check

// Names returns what every run of more than a few seeds must have put to the test, as [Result.Checked] counts it.
func Names() []string {
	return []string{
		"I1", "I1 certificate", "I1 term", "I1 process", "I1 move", "I1 touch", "I1 word", "I1 lost",
		"I2", "I2 silent", "I2 fail-over", "I2 commit",
		"I3", "E3", "I4", "M3", "T2", "closes", "E5", "I5", "I6", "I6 changes", "I7", "I7 order", "I8",
		"context", "told moved", "served", "liveness", "linear",
	}
}

// RareNames returns what only a long soak can be held to have put to the test.
func RareNames() []string { return []string{"I2 owner lost", "I2 owner restarted"} }
