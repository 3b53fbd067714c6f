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
