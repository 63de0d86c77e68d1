package house

// noLimitSettings are the settings with a number or a duration that limit nothing.
var noLimitSettings = []string{"node", "raft_heartbeat_timeout", "trace_sample_ratio"}

// noLimits are the constants whose names may be those of limits, and that nobody can meet: no user, client, operator or
// other node.
var noLimits = []struct{ why, names string }{
	{"kinds, and the first value beyond them", `fence.Max fsm.keptThing transport/raftnet.maxType tree.OverLimit`},
	{
		"ends of the ranges of settings, which the settings' own table tells",
		`node/config.mostPerSecond session.DefaultLimits.Max session.DefaultLimits.Min`,
	},
	{
		"numbers with more room than is used in a thousand years",
		`fsm.MaxClock fsm.maxClockMS fsm.maxForMS session.MaxMS session.maxAge session/ids.MaxSnowflakeMS
		tree.MaxIndex tree/store.maxDueMS`,
	},
	{
		"how long or how often something waits, tries or looks before it does the same in another way",
		`client.DefaultMaxBackoff client/internal/core.MaxPutOffs client/internal/core.MaxSilence
		client/internal/core.maxBrief client/internal/core.maxDoubts client/internal/core.maxLagged
		client/internal/core.maxRounds client/internal/writes.mostWait client/recipes.mostPause cmd/node.feedsPerLimit
		fence.maxPause leader.roundsPerTimeout learner.aheadLimit learner.maxReopen learner/writes.DefaultLimits.Quiet
		learner/writes.mostWait node/config.DefaultTuning.ShutdownTimeout node/config.DefaultTuning.SnapshotInterval
		node/config.DefaultTuning.SnapshotThreshold node/config.maxCommitTimeout node/config.maxLaggingWait
		node/succession.looksPerSilence node/watchdog.looksPerLimit transport/census.most transport/gate.mostAtOnce
		transport/raftnet.reportsPerTimeout transport/secure.aheadMost transport/wire.maxTry`,
	},
	{
		"how much is done, read, locked or sent at a time: the rest follows at once",
		`backup.MaxChunk client.maxOffers client.maxTurn client/internal/core.maxResumes client/internal/core.maxWatchBytes
		client/internal/route.MaxAddresses client/internal/route.MaxRacing client/internal/stream.maxBatchBytes
		leader.maxFlights leader.maxFlying leader.maxHold leader.maxSent learner.maxFlights learner.maxHeld
		learner/namespace.maxEvents learner/namespace.maxSessionBatch transport/clientport.maxEventBatch
		session.MaxReleases transport/port.maxIdleLooked tree.MaxAcknowledgements tree.MaxPageEntries`,
	},
	{
		"what is remembered or kept for later: who comes when it is gone is served in another way",
		`client.maxClusters client/internal/stream.maxSpare client/internal/window.maxAnswered console.newsKept
		console.turnsKept learner.maxConfirming learner.maxUnconfirmed node.keptSnapshots node.maxBuckets session.maxStalls
		transport/clientport.keptSizes transport/clientport.keptTreeRequests transport/tracing.maxEntries
		transport/tracing.maxKept watch.kept watch.maxKeys`,
	},
	{
		"how much of a text or a list is shown, logged or traced",
		`auth.mostNames cmd/internal/top.maxFilter fence.maxShown session.MaxTraced transport/guard.mostDeep
		transport/guard.mostItems transport/guard.mostText transport/guard.mostWhat transport/port.maxReason
		transport/secure.mostWarnings transport/tracing.maxNamed transport/tracing.maxPath tree.maxShown zk.most`,
	},
	{
		"how much is read of an answer, a file or a name that is known to be shorter",
		`cmd/internal/arg.maxAnswer cmd/node.maxHealthAnswer node.maxSettingText node/boltfile.mostPage
		transport/raftnet.maxHTTP transport/secure.maxName transport/secure/issue.maxDNSLabel
		transport/secure/issue.maxDNSName transport/wire.maxClusterID`,
	},
	{
		"what is reckoned of the largest thing that other limits allow",
		`learner/lane.maxACL tree.MaxShare tree/form.mostOutcome tree/form.mostRefusal`,
	},
	{"what the log may say of a limit of the tree, which is lower today", `tree.MostChildren`},
}
