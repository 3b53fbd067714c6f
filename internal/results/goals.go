package results

// What the project sets out to reach, for the realistic layout.
const (
	// GoalTCPReload and GoalTCPPublish are times the Python client's speed.
	GoalTCPReload  = 1.3
	GoalTCPPublish = 1.5
	// GoalOfLoopback is a part of one loopback stream's speed, over TCP.
	GoalOfLoopback = 0.8
	// GoalSharedMemory is times the Python client's speed over TCP.
	GoalSharedMemory = 3.0
	// GoalHeldBytes is what a client stays below beyond its caller's buffers.
	GoalHeldBytes = 64 << 20
)

// What the project sets out to reach in times to the first token.
const (
	// GoalOfPrimed is the most times a primed slot's time that reuse takes.
	GoalOfPrimed = 4.0
	// GoalPublishingAdded is the most that publishing adds, of a cold prompt's time.
	GoalPublishingAdded = 0.03
	// GoalMissMS is the most that a lookup that misses adds, GoalNoneMS a stand-in
	// without a store.
	GoalMissMS = 3.0
	GoalNoneMS = 1.0
	// GoalDecode is the least part of the stock engine's tokens a second: what is
	// less is a loss that can be measured.
	GoalDecode = 0.99
	// GoalResidentBytes is the most that a stand-in has resident beside pages in
	// flight.
	GoalResidentBytes = 128 << 20
)

// GoalOfCold is how many times quicker than a cold prompt reuse is, by the
// prompt's tokens.
var GoalOfCold = map[int]float64{1793: 40, 7937: 150}
