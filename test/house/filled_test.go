package house

// filled has for each row of docs/limits.md the constants with its values, and the tests that reach the limit.
var filled = map[string]struct{ constants, tests string }{
	"`max_sessions`": {"session.MaxCapacitySessions", "fsm.TestO4MaxSessions learner.TestO4LocalSessions"},
	"`max_state_bytes`": {
		"session.MinCapacityBytes session.MaxCapacityBytes",
		"fsm.TestO4MaxStateBytes fsm.TestO4RememberedRequests learner.TestO4LocalBytes",
	},
	"certificates of ended sessions": {
		"fsm.certificateLimit fsm.certificateAge",
		"fsm.TestCertificatesAreARing fsm.TestO4CertificatesRefuseNoOpen fsm.TestO4CertificatesGetOld",
	},
	"certificates of local sessions": {
		"learner/local.rememberedEnds",
		"learner/local.TestLocalCertificatesAreBounded",
	},
	"`min_timeout`":                       {"session.MaxTimeout", "session.TestNegotiate"},
	"`max_timeout`":                       {"session.MaxTimeout", "session.TestNegotiate"},
	"labels":                              {"session.MaxLabels", "session.TestLabels"},
	"key of a label":                      {"session.MaxLabelKey", "session.TestLabels"},
	"value of a label":                    {"session.MaxLabelValue", "session.TestLabels"},
	"name of a client":                    {"session.MaxClientName", "transport/ratelimit.TestClientNameFromMetadata"},
	"reason of an operator":               {"session.MaxWhy", "transport/clientport.TestFreezesOutOfRange"},
	"freeze, extension":                   {"session.MaxFreeze", "session.TestCheckSpan"},
	"`extended_sessions`":                 {"session.MaxExtended", "fsm.TestY4Bounds"},
	"kill":                                {"session.MaxKill", "transport/clientport.TestAdminRefusesBadRequests"},
	"`AllocateIds`":                       {"session.MaxClaim", "leader.TestO3RefusesClaims"},
	"clock of a node that makes ids":      {"leader.maxAhead", "leader.TestO1AWrongClockStopsNoOpens"},
	"`path`":                              {"tree.MaxPath", "tree.TestCheckPath"},
	"names in a `path`":                   {"tree.MaxDepth", "tree.TestCheckPath"},
	"`transaction`":                       {"tree.MaxOps", "tree.TestCheckTransaction"},
	"bytes of a `transaction`":            {"tree.MaxRequest", "tree.TestCheckTransaction"},
	"weight of a transaction":             {"tree.MaxWeight", "tree.TestBoundOfWeight"},
	"weight of a will":                    {"tree.MaxWillWeight", "tree.TestCheckWill"},
	"`DeleteTree`":                        {"tree.MaxDeleteTree", "tree/store.TestBoundOfRemovals"},
	"weight of `DeleteTree`":              {"tree.DeleteTreeWeight", "tree/store.TestBoundOfRemovals"},
	"new quotas":                          {"tree.MaxQuotaWalk", "tree/store.TestBoundOfWalks"},
	"`ttl`":                               {"tree.MinTTL tree.MaxTTL", "tree.TestCheckTransaction"},
	"`lock_delay`":                        {"tree.MaxLockDelay", "tree.TestCheckTransaction"},
	"`acl`":                               {"tree.MaxGrants", "tree.TestACL"},
	"bytes of an `acl`":                   {"tree.MaxACL", "tree.TestACL"},
	"`principals`":                        {"tree.MaxPrincipals", "tree.TestBoundsOfPrincipals"},
	"bytes of `principals`":               {"tree.MaxPrincipal", "tree.TestBoundsOfPrincipals"},
	"scheme of a principal":               {"tree.MaxScheme", "tree.TestBoundsOfPrincipals"},
	"version":                             {"tree.MaxVersion", "tree.TestCheckTransaction"},
	"sequence number":                     {"tree.MaxSequence", "tree/store.TestTheLastSequenceNumber"},
	"`will`":                              {"tree.MaxWillOps", "tree.TestCheckWill"},
	"bytes of a `will`":                   {"tree.MaxWill", "tree.TestCheckWill"},
	"stored `will`":                       {"tree/writers.MaxWill", "tree/writers.TestTheLargestWillFits"},
	"all stored wills":                    {"tree/writers.DefaultLimits.AllWills", "tree/writers.TestShareOfWills"},
	"unacknowledged results of a session": {"tree/writers.DefaultLimits.Results", "tree/writers.TestWindow"},
	"their bytes":                         {"tree/writers.DefaultLimits.Bytes tree/writers.resultOverhead", "tree/writers.TestWindow"},
	"results of all sessions": {
		"tree/writers.DefaultLimits.AllResults tree/writers.DefaultLimits.Spare " +
			"tree/writers.DefaultLimits.Large",
		"tree/writers.TestShareOfResults",
	},
	"`max_tree_bytes`":                  {"tree.DefaultBytes tree.MinBytes tree.MaxBytes", "tree/store.TestBoundOfBytes"},
	"`max_ephemerals`":                  {"tree.MaxEphemerals", "tree/store.TestBoundOfEphemerals"},
	"weight of ephemerals":              {"tree.MaxOwnedWeight", "tree/store.TestBoundOfEphemerals"},
	"`max_children`":                    {"tree.DefaultLimits.Children", "tree/store.TestModel"},
	"`countHardLimit`, `byteHardLimit`": {"", "tree/store.TestQuotaRefusals"},
	"`page_size` of the tree": {
		"tree.MaxPage tree.DefaultPage",
		"transport/wire.TestTreeQueriesOutOfRange tree/store.TestPages",
	},
	"bytes of a page of the tree":  {"tree.MaxPageBytes", "tree/store.TestPages"},
	"`watches`":                    {"tree.MaxWatches", "transport/wire.TestWatchesRoundTrip"},
	"`watch_bytes_per_connection`": {"watch.MaxConnectionBytes", "watch.TestV1BytesOfWatchesAreBounded"},
	"`watch_bytes_per_node`":       {"watch.MaxNodeBytes", "watch.TestV1APrincipalLeavesMemoryForWatches"},
	"unsent events":                {"watch.DefaultFeedLimits.Events watch.DefaultFeedLimits.Bytes", "watch.TestFeedIsBounded"},
	"ring of changes": {
		"watch.DefaultRingLimits.Items watch.DefaultRingLimits.Bytes",
		"watch.TestRingModel watch.TestV3AccessListsCountForTheRing",
	},
	"ring of changes of sessions": {
		"learner/tree/dispatch.DefaultHubLimits.Sessions.Items learner/tree/dispatch.DefaultHubLimits.Sessions.Bytes",
		"watch.TestSessionRing",
	},
	"trees kept for reads before a write": {
		"learner/tree/dispatch.maxKept",
		"learner/tree/dispatch.TestKeptTrees",
	},
	"ring of results": {
		"learner/tree/dispatch.DefaultHubLimits.Results.Items learner/tree/dispatch.DefaultHubLimits.Results.Bytes",
		"learner/tree/dispatch.TestHistories",
	},
	"`unanswered_writes`":             {"tree.MaxUnanswered", "learner/tree/pending.TestAdmission"},
	"`unanswered_write_bytes`":        {"tree.MaxUnansweredBytes", "learner/tree/pending.TestBytes"},
	"`pending_write_bytes` of a node": {"learner/tree/pending.DefaultLimits.NodeBytes", "learner/tree/pending.TestBytes"},
	"`requests_behind_upgrade`": {
		"tree.MaxUnanswered tree.MaxUnansweredBytes",
		"learner/tree.TestU4WhatWaitsForAnUpgradeIsBounded",
	},
	"`queued_requests`": {
		"learner/tree/dispatch.DefaultLimits.Requests learner/tree/dispatch.DefaultLimits.Queued " +
			"transport/clientport.maxTreeRequests zk/queue.maxRequests zk/queue.maxRequestBytes",
		"learner/tree/dispatch.TestWaitingRequestsAreBounded transport/clientport.TestAReaderThatStands",
	},
	"`node_queued_bytes`": {"learner/tree/dispatch.MaxNodeQueued", "learner/tree.TestG8RequestsOfTheNode"},
	"unsent answers": {
		"learner/tree/dispatch.DefaultLimits.Unsent",
		"learner/tree/dispatch.TestReadsWaitForMemory transport/clientport.TestAStreamThatIsNotRead " +
			"zk/writer.TestSlowClients",
	},
	"unsent answers of a node": {"learner/tree/dispatch.MaxNodeUnsent", "learner/tree/dispatch.TestG9StalledReadersLeaveMemory"},
	"`max_message_bytes`, `message`": {
		"transport/wire.DefaultMessageBytes",
		"transport/clientport.TestGarbageMessagesEndTheStream " +
			"transport/clientport.TestWritesThatAreTooLarge",
	},
	"headers of a call": {"transport/port.maxHeaderBytes", "transport/port.TestHeadersOfACallAreBounded"},
	"batch, resume of many sessions": {
		"session.MaxBatch",
		"transport/clientport.TestBadBatches transport/wire.TestColumnsOfResumes",
	},
	"`TouchSessions`": {"session.MaxTouchBatch", "transport/clientport.TestEveryFieldHasARange"},
	"`page_size` of sessions and certificates": {
		"session.MaxPage",
		"transport/clientport.TestEveryFieldHasARange",
	},
	"filtered list of sessions": {
		"learner.maxScan learner/local.MaxScan",
		"learner.TestAPageLooksAtSoMany learner/local.TestAPageLooksAtSoManyLocalSessions",
	},
	"filtered list of certificates": {"learner.maxDeathScan", "learner.TestAPageLooksAtSoMany"},
	"`ListConnections`": {
		"transport/clientport.maxConnections",
		"transport/clientport.TestListConnectionsRefusals",
	},
	"ids in `ListConnections`": {
		"transport/clientport.maxSessionIDs",
		"transport/clientport.TestListConnectionsRefusals",
	},
	"filter of `ListConnections`": {
		"transport/clientport.maxPrincipalFilter",
		"transport/clientport.TestListConnectionsRefusals",
	},
	"digests": {"transport/wire.MaxDigests", "transport/ratelimit.TestP1BadDigestsAreRefused"},
	"a digest": {
		"transport/wire.MaxDigestBytes transport/wire.MaxDigestName",
		"transport/ratelimit.TestP1BadDigestsAreRefused",
	},
	"`max_sessions_per_connection`": {
		"transport/clientport.defaultSessions",
		"transport/clientport.TestConnectLimits",
	},
	"`max_requests_per_connection`": {
		"transport/clientport.defaultRequests",
		"transport/clientport.TestConnectLimits",
	},
	"`outgoing_messages`": {
		"transport/clientport.defaultOutgoing",
		"transport/clientport.TestASlowReaderLosesItsStream",
	},
	"`outgoing_bytes`": {
		"transport/clientport.maxOutgoingBytes transport/port.SessionBytes",
		"transport/clientport.TestOutgoingBytesAreBounded",
	},
	"`outgoing_timeout`": {
		"transport/port.ReadTimeout transport/clientport.minReadRate",
		"transport/clientport.TestAReaderThatStopped transport/clientport.TestAReaderOfASlowLink",
	},
	"`buffered_bytes_per_connection`": {
		"transport/port.MaxConnectionBytes transport/port.RequestBytes",
		"transport/clientport.TestRequestsUnderWayCount " +
			"transport/clientport.TestAConnectionLearnsItsBound",
	},
	"`max_buffered_bytes`":    {"", "transport/clientport.TestTheNodesBound"},
	"`write_timeout`":         {"transport/port.unwrittenWait", "transport/port.TestAnswersThatNobodyReads"},
	"`first_message_timeout`": {"transport/port.FirstMessageWait", "transport/clientport.TestCallsThatSayNothing"},
	"`idle_stream_timeout`":   {"transport/clientport.idleStreamWait", "transport/clientport.TestIdleStreams"},
	"`max_connections`": {
		"",
		"transport/clientport.TestConnectionsAboveTheLimitAreClosed " +
			"transport/port.TestAnAddressGetsItsShare transport/port.TestOneAddressEndsNoOther " +
			"zk.TestParkedClientsAreEvicted",
	},
	"`max_connections_per_address`": {
		"",
		"transport/clientport.TestConnectionsPerAddress transport/port.TestLimitClients",
	},
	"refused connections that get a reason": {
		"transport/port.MaxRefusing transport/port.RefusingWait",
		"transport/clientport.TestRefusedConnectionsLearnWhy",
	},
	"`max_streams`": {"transport/clientport.minCalls", "transport/clientport.TestStreamsOfTheNode"},
	"calls of a connection": {
		"transport/clientport.callsPerConnection",
		"transport/clientport.TestStreamsAboveTheLimitWait",
	},
	"TLS handshake":   {"transport/secure.handshakeTimeout", "transport/secure.TestSilentCallers"},
	"`drain_timeout`": {"", "test/whole.TestDrain"},
	"`max_opens_per_second`": {
		"",
		"transport/ratelimit.TestRateLimitsAreApart " +
			"transport/clientport.TestEveryOpenResumeAndTouchPassesTheRateLimits",
	},
	"`max_resumes_per_second`": {"", "transport/ratelimit.TestLimiterServesResumesUnderAHerdOfOpens"},
	"`max_writes_per_second`": {
		"",
		"transport/clientport.TestX8StreamWritesHaveABudget " +
			"transport/clientport.TestUnaryWritesAreAClassOfTheirOwn",
	},
	"`max_touches_per_second`": {
		"node/ports.touchesPerSecond",
		"transport/ratelimit.TestLimiterServesTouchesUnderAHerdOfResumes",
	},
	"`max_opens_and_resumes_per_second_per_address`": {"", "transport/ratelimit.TestLimiterPerAddress"},
	"`max_opens_and_resumes_per_second_per_client`":  {"", "transport/ratelimit.TestLimiterPerClient"},
	"addresses and clients with a rate limit of their own": {
		"transport/ratelimit.maxShares",
		"transport/ratelimit.TestSharesAreBounded",
	},
	"burst":                             {"transport/ratelimit.burstPart", "transport/ratelimit.TestBucketKeepsItsRate"},
	"longest wait that a refusal names": {"session.MaxRetryAfter", "transport/ratelimit.TestBucketBoundsTheWait"},
	"audit lines": {
		"transport/authz.lineBurst transport/authz.lineInterval",
		"transport/authz.TestAuditLinesOfUnknownCallersAreLimited",
	},
	"log lines about expiries and kills": {"session.LogLinesPerSecond", "learner.TestExpiriesAreLogged"},
	"`requests_to_leader`":               {"learner.maxPending", "learner.TestCallsAreBounded"},
	"`opens_per_stream`":                 {"leader.maxRequests", "leader.TestRequestsBounded"},
	"`requests_per_stream`":              {"leader.maxRequests", "leader.TestOpensThatWaitHoldUpNothingElse"},
	"`moves_per_stream`":                 {"leader.maxMoving", "leader.TestMovesHaveABound"},
	"unsent replies":                     {"leader.maxReplies", "leader.TestRefusalsOfAllThatALearnerMayAskKeepTheStream"},
	"refused touches":                    {"leader.maxRejectedTouches", "leader.TestS1RefusedTouchesAreBounded"},
	"acknowledgements at the leader":     {"leader.maxAcknowledges", "leader.TestAcknowledgementsGoToTheLog"},
	"writes at the leader": {
		"leader.maxForwardedBytes leader.forwardedBytes",
		"leader.TestW7AFloodOfANodeIsBounded",
	},
	"refusals of writes":        {"leader.maxRefusals", "leader.TestANodeThatReadsNoRefusals"},
	"sessions behind a refusal": {"leader.maxGaps", "leader.TestANodeThatReadsNoRefusals"},
	"`write_bytes_in_flight`":   {"fsm/proposer.DefaultWriteBytes fsm/proposer.writeOverhead", "fsm/proposer.TestW7WritesAreBoundedInBytes"},
	"`opens_in_flight`, `moves_in_flight`, `closes_in_flight`, `leader_commands_in_flight`, `writes_in_flight`": {
		"fsm/proposer.DefaultProposalsQueued",
		"fsm/proposer.TestEachKindHasABoundOfItsOwn fsm/proposer.TestProposalsAreBounded",
	},
	"wait for the log": {"fsm/proposer.DefaultTimeout", "fsm/proposer.TestDeadlineOfAnEntry"},
	"log entry": {
		"fsm/proposer.DefaultEntryCommands session.EntryBytes tree.MaxWeight",
		"fsm/proposer.TestEntryIsBounded fsm/proposer.TestW9ConnectionsShareTheLog",
	},
	"`positions_per_entry`": {"tree.MaxPosition", "fsm.TestPositionsOfAnEntry"},
	"ends of sessions":      {"session.MaxCloseBatch", "leader.TestE3Entries"},
	"closes by clients":     {"leader.maxCloses", "leader.TestE4ClosesThatShareACommand"},
	"entries that come due": {"tree.MaxReap tree.MaxReapWeight", "tree/store.TestNextReap"},
	"forgotten request ids": {"session.MaxForget", "leader.TestO2ForgottenInParts"},
	"log behind a snapshot": {
		"node/config.DefaultTuning.LogBytes node/config.DefaultTuning.TrailingLogs",
		"node.TestW7LargeLogsAreCut",
	},
	"peers": {"session.MaxNode", "node/config.TestParsePeersRefuses"},
	"`heartbeat_interval`": {
		"session.MinInterval session.MaxInterval",
		"transport/peerport.TestLeaderMessagesOutOfRange",
	},
	"message on the peer port": {
		"transport/wire.PeerMessageBytes",
		"transport/peerport.TestAMessageOfALearnerIsBounded " +
			"transport/peerport.TestAMessageOfTheLeaderIsBounded",
	},
	"message of requests or replies": {"session.MaxPeerBatch", "transport/wire.TestBatchesAreBounded"},
	"message of writes": {
		"session.MaxForwardBytes session.MaxCommandBytes session.MaxPeerBatch",
		"transport/wire.TestForwardOutOfRange",
	},
	"wait at a start": {"node/members.reportIntervals node/members.maxReportWait", "node.TestJ6WhatWasAppliedIsNotCutOff"},
	"silence on the peer port": {
		"transport/wire.HelloTimeout transport/peerport.learnerSilence transport/peerport.peerIdle",
		"transport/peerport.TestHelloIsAwaitedFiveSeconds " +
			"transport/peerport.TestALearnerThatSaysNothingIsGivenUp " +
			"transport/peerport.TestAConnectionWithoutAStreamEnds",
	},
	"connections to the peer port": {"node/ports.defaultParts.peers", "transport/peerport.TestUnknownCallersEvictNoMember"},
	"connections to Raft's port before the greeting": {
		"node/ports.defaultParts.handshakes transport/raftnet.maxHandshakes",
		"transport/raftnet.TestTheOldestHandshakeIsEvicted",
	},
	"connections to Raft's port of another node": {
		"transport/raftnet.maxPerNode",
		"transport/raftnet.TestConnectionsOfOneNode",
	},
	"silence on Raft's port": {
		"transport/raftnet.firstWait transport/raftnet.idleLimit",
		"transport/raftnet.TestSilenceAfterTheGreeting",
	},
	"greeting on Raft's port":  {"transport/raftnet.maxText", "transport/raftnet.TestGreetingBytes"},
	"handshake on Raft's port": {"transport/raftnet.maxFrame", "transport/raftnet.TestWaiting"},
	"message of Raft": {
		"transport/raftnet.MaxMessage transport/raftnet.MaxField transport/raftnet.MaxItems " +
			"transport/raftnet.maxDepth transport/raftnet.maxExtension",
		"transport/raftnet.TestMalformedMessages transport/raftnet.TestAMessageIsBounded",
	},
	"request of Raft": {
		"node/consensus.maxAppendEntries transport/raftnet.MaxRequest",
		"transport/raftnet.TestRequestsAreBounded",
	},
	"term in a request": {"transport/raftnet.TermLeap", "transport/raftnet.TestInvalidRequestsAreRefused"},
	"term in an answer": {
		"transport/raftnet.FarTerm transport/raftnet.maxIndex",
		"transport/raftnet.TestAnswersOfAbsurdTerms",
	},
	"frame":                              {"zk/jute.MaxFrame zk/frames.maxConnect", "zk/frames.TestFramesOfAllLengths zk/frames.TestTheFirstFrameIsShort"},
	"incomplete frames":                  {"zk/frames.maxPartial zk/frames.readAhead", "zk/frames.TestPartialFramesAreBounded zk/frames.TestTheOldestPartialFrameEnds"},
	"first frame":                        {"zk.connectWait", "zk.TestHostile"},
	"open, resume":                       {"zk.handshakeWait", "zk.TestAHandshakeEnds"},
	"multi, multiRead":                   {"zk/jute.MaxOps", "zk.TestMultisOfTheMostOperations zk/operations.TestMultisAreBounded"},
	"answer to a multiRead":              {"zk/operations.maxMultiRead", "zk/operations.TestMultiReadsAreBounded"},
	"writes in flight":                   {"zk/queue.maxWrites zk/queue.maxWriteBytes", "zk/queue.TestWritesInFlightAreBounded"},
	"unanswered pings and auths":         {"zk/writer.maxUnordered", "zk/writer.TestPingsThatNobodyReads"},
	"list that changes while it is read": {"zk/operations.maxRestarts", "zk/operations.TestAListThatAlwaysChangesIsAnswered"},
	"`disk_limit`": {
		"node/health.reserveParts node/health.maxReserve",
		"node/health.TestResources node/health.TestReserve test/whole.TestFullDisks test/disk.TestSmallDisk",
	},
	"`memory_limit`":                       {"", "node/health.TestResources"},
	"opens, by memory in use":              {"node/health.shareOfOpens", "node/health.TestResources"},
	"resumes and writes, by memory in use": {"node/health.shareOfAll", "node/health.TestResources"},
	"file descriptors": {
		"node/ports.ownDescriptors node/ports.memberDescriptors node/ports.defaultParts.handshakes " +
			"node/ports.defaultParts.peers node/ports.defaultParts.http node/ports.minClients",
		"node/ports.TestPartsOfTheDescriptors node.TestFewDescriptors",
	},
	"`stall_timeout`":    {"", "node.TestALeaderWhoseDiskHangs node.TestAStateMachineThatHangs"},
	"`max_snapshots`":    {"node.maxBackups node.backupKept", "node.TestBackupsAreBounded"},
	"`snapshot_age`":     {"node.backupAge", "node.TestACopyGetsTooOld"},
	"header of a backup": {"backup.MaxHeader", "backup.TestHeaderRefuses"},
	"record of a snapshot": {
		"fsm.maxRecordSize tree/form.MaxRecord",
		"fsm.TestLargestSessionFitsIntoARecord tree/form.TestLargestWriterFitsIntoARecord",
	},
	"configuration file":          {"node/config.maxFileBytes", "node/config.TestConfigurationFileIsBounded"},
	"certificate and key files":   {"transport/secure.maxFile", "transport/secure.TestFilesAreBounded"},
	"file of tokens":              {"auth.MaxFileBytes", "auth.TestBoundsOfAFile"},
	"entries of a file of tokens": {"auth.MaxEntries auth.MaxName", "auth.TestBoundsOfAFile"},
	"HTTP port":                   {"node/ports.defaultParts.http", "transport/port.TestLimitConnections"},
	"HTTP request":                {"node/ports.maxHeaderBytes node/ports.httpTimeout", "transport/port.TestLimitConnections"},
	"console: callers":            {"console.maxCallers console.maxContents", "console.TestCallersKeepTheirClients"},
	"console: a form":             {"console.maxFormBytes", "console.TestBadInputIsRefusedByName"},
	"console: an export":          {"console.maxExport", "console.TestExportsAreBounded"},
	"console: a page": {
		"console.maxEntries console.maxContenders console.maxPaths",
		"console.TestPagesSayThatThereIsMore",
	},
	"traces":           {"transport/tracing/otlp.queueSpans", "transport/tracing/otlp.TestCollectorThatHangs"},
	"`pending_writes`": {"client/internal/writes.MaxWaiting", "client/internal/writes.TestBytes"},
	"`pending_write_bytes` of the SDK": {
		"client/internal/writes.MaxWaitingBytes",
		"client/internal/writes.TestBytes",
	},
	"requests in flight": {
		"client/internal/window.MaxRequests client/internal/window.MaxMany " +
			"client/internal/window.MaxTouches client/internal/core/tree.maxReads",
		"client/internal/core/conn.TestWindowBoundsRequestsInFlight",
	},
	"events of a session": {"client.eventBuffer", "client.TestEventsDropTheOldest"},
	"events of a watch":   {"client.WatchBuffer client/internal/core/tree.maxReplay", "client.TestV6SlowReaders"},
	"`Config.Servers`":    {"client.MaxServers", "client.TestParseConnectString"},
	"learnt addresses": {
		"client/internal/route.maxLearnt",
		"client/internal/route.TestRouterForgetsTheOldestLearntAddress",
	},
	"connect string":   {"client.maxHost client.maxChroot", "client.TestParseConnectString"},
	"`Config.Digests`": {"client.MaxDigests client.MaxDigestBytes", "client.TestDigestsAreChecked"},
	"`Pool`":           {"client.MaxConnections", "client.TestPoolUpdatesServersAndCloses"},
	"file of a token": {
		"client.maxTokenBytes cmd/holdfast/internal/cli.tokenBytes",
		"client.TestFilesOfTokensAreBounded cmd/holdfast/internal/cli.TestFilesOfTokensAreBounded",
	},
	"`Connections`": {"client.MaxListedConnections client.maxIDs", "client.TestConnections"},
	"take-overs":    {"client/internal/core/session.MaxTakeOvers", "client.TestM1TakeOversAreBounded"},
	"`Semaphore`, `DoubleBarrier`": {
		"client/recipes.MaxPermits client/recipes.MaxMembers",
		"test/recipes.TestSemaphore test/recipes.TestDoubleBarrier",
	},
	"name of a fenced resource": {"fence.MaxName", "fence.TestLongNames"},
	"requests of `holdfast import`": {
		"cmd/internal/migrate.MaxInFlight cmd/internal/migrate.maxSteps",
		"cmd/holdfast/internal/tree.TestImportRefusesArguments",
	},
	"problems that `holdfast import` prints": {
		"cmd/internal/migrate.MaxProblems",
		"cmd/holdfast/internal/tree.TestImportRefusesArguments",
	},
	"`holdfast lock ls`, `holdfast tree`": {
		"cmd/holdfast/internal/lock.maxContenders cmd/holdfast/internal/lock.maxLocks " +
			"cmd/holdfast/internal/tree.maxDrawn cmd/holdfast/internal/tree.maxOwners",
		"cmd/holdfast/internal/lock.TestLocksAmongTooMany cmd/holdfast.TestFlagsSayWhatTheyTake",
	},
	"text of `holdfast txn`": {
		"cmd/holdfast/internal/tree.maxText",
		"cmd/holdfast/internal/tree.TestTextOfALargeTransaction",
	},
	"data of a command": {
		"cmd/holdfast/internal/tree.maxData",
		"cmd/holdfast/internal/tree.TestTextOfALargeTransaction",
	},
	"`holdfast id new`": {"cmd/holdfast/internal/id.maxNewIDs", "cmd/holdfast.TestFlagsSayWhatTheyTake"},
	"`holdfast ping`":   {"cmd/holdfast/internal/cluster.maxPings", "cmd/holdfast.TestFlagsSayWhatTheyTake"},
	"messages of `holdfast`": {
		"cmd/holdfast/internal/cli.maxMessages",
		"cmd/holdfast/internal/cli.TestMessagesNeverBlock",
	},
	"`node dev`":                       {"cmd/node.maxDevNodes", "cmd/node.TestDevRefusesFlags"},
	"machine of a snowflake generator": {"session/ids.MaxMachine", "session/ids.TestSnowflakeConfigRefuses"},
	"set-back clocks of a snowflake generator": {
		"session/ids.MaxRollbackBits",
		"session/ids.TestSnowflakeConfigRefuses",
	},
	"waits of a snowflake generator": {"session/ids.MaxWait", "session/ids.TestWaitsAreBounded"},
}
