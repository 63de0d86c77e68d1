package house

// noLimitSettings are the settings with a number or a duration that limit nothing.
var noLimitSettings = []string{"raft_heartbeat_timeout", "trace_sample_ratio"}

// noLimits are the constants whose names may be those of limits, and that nobody can meet: no user, client, operator
// or other node.
var noLimits = []struct{ why, names string }{
	{"kinds, and the first value beyond them", `fence.Max fsm/digest.KindExtension transport/raftnet.maxType tree.OverLimit`},
	{
		"ends of the ranges of settings, which the settings' own table tells",
		`node/config.maxPerSecond session.DefaultLimits.Max session.DefaultLimits.Min`,
	},
	{
		"numbers with more room than is used in a thousand years",
		`fsm/codec.MaxClockMS fsm/entry.maxForMS session.MaxMS session.maxAge session/ids.MaxSnowflakeMS
		tree.MaxIndex tree/store.maxDueMS`,
	},
	{
		"how long or how often something waits, tries or looks before it does the same in another way",
		`client.DefaultMaxBackoff client/internal/core/session.MaxDeferrals client/internal/core/conn.MaxSilence
		client/internal/core/conn.maxBrief client/internal/core/conn.maxDoubts client/internal/core/tree.maxLagged
		client/internal/core/conn.maxRounds client/internal/writes.maxWait client/recipes.maxPause cmd/node.feedsPerLimit
		fence.maxPause leader.roundsPerTimeout learner.aheadLimit learner.maxReopen learner/tree/pending.DefaultLimits.Quiet
		learner/tree/pending.maxWait node/config.DefaultTuning.ShutdownTimeout node/config.DefaultTuning.SnapshotInterval
		node/config.DefaultTuning.SnapshotThreshold node/config.maxCommitTimeout node/config.maxCatchUpWait
		node/health.maxAnswerInterval node/succession.wakesPerLimit node/watchdog.scansPerLimit transport/census.maxAge
		transport/ratelimit.maxCost
		transport/raftnet.reportsPerTimeout transport/secure.maxAhead transport/wire.maxTry`,
	},
	{
		"how much is done, read, locked or sent at a time: the rest follows at once",
		`backup.MaxChunk client.maxOffers client.maxTurn client/internal/core/conn.maxResumes client/internal/core/tree.maxWatchBytes
		client/internal/route.MaxAddresses client/internal/route.MaxRacing client/internal/stream.maxBatchBytes
		leader.maxFlights leader.maxFlying leader.maxHold leader.maxSent learner/local.maxUpgrades learner/local.maxLocked learner/tree.maxSyncs
		learner/tree.maxEvents learner/tree.maxSessionBatch transport/clientport.maxEventBatch
		session.MaxReleases transport/port.maxIdleChecked tree.MaxAcknowledgements tree.MaxPageEntries`,
	},
	{
		"what is remembered or kept for later: who comes when it is gone is served in another way",
		`client.maxClusters client/internal/stream.maxSpare client/internal/window.maxAnswered console.maxEvents
		console.maxEntriesKept learner.maxConfirming learner.maxUnconfirmed node/storage.keptSnapshots
		node/metrics.maxBuckets session.maxStalls
		transport/clientport.keptSizes transport/clientport.keptTreeRequests transport/tracing.maxEntries
		transport/tracing.maxKept watch.kept watch.maxKeys`,
	},
	{
		"how much of a text or a list is shown, logged or traced",
		`auth.maxNames cmd/internal/top.maxFilter fence.maxShown session.MaxTraced transport/authz.maxDepth
		transport/authz.maxItems transport/authz.maxText transport/authz.maxWhat transport/port.maxReason
		transport/secure.maxWarnings transport/tracing.maxNamed transport/tracing.maxPath tree.maxShown zk/operations.limit`,
	},
	{
		"how much is read of an answer, a file or a name that is known to be shorter",
		`cmd/internal/arg.maxAnswer cmd/node.maxHealthAnswer node/members.maxSettingText node/storage/boltfile.maxPage
		transport/raftnet.maxHTTP transport/secure.maxName transport/secure/issue.maxDNSLabel
		transport/secure/issue.maxDNSName transport/wire.maxClusterID`,
	},
	{
		"what is reckoned of the largest thing that other limits allow",
		`learner/tree/dispatch.maxACL tree.MaxShare tree/form.maxOutcome tree/form.maxRefusal`,
	},
	{"what the log may say of a limit of the tree, which is lower today", `tree.MaxChildren`},
}
