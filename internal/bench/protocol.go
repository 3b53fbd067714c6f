package bench

// What a call asks of a contender.
const (
	// opOpen connects to the store and fills buffers with random bytes: the pages
	// of request A, and those that only B has.
	opOpen = "open"
	// opPublish publishes A's pages, timed. The answer's Pages were stored newly.
	opPublish = "publish"
	// opRemove removes the objects of the call's keys.
	opRemove = "remove"
	// opReload clears the buffers of request B, loads into them what the store has
	// of it, timed, and compares that with what was published. The answer's Pages
	// were served.
	opReload = "reload"
	// opExtend publishes what B has computed: it follows a reload, and puts B's own
	// pages behind the loaded ones. The answer's Pages were stored newly.
	opExtend = "extend"
	// opClose leaves the store. The answer's HeldBytes is the most memory the
	// client held.
	opClose = "close"
)

// A call goes to a contender. Tokens and Keys are the same request: one
// contender derives the keys itself, another is told.
type call struct {
	Op     string   `json:"op"`
	Open   *opening `json:"open,omitempty"`
	Tokens []int32  `json:"tokens,omitempty"`
	Keys   []string `json:"keys,omitempty"`
}

// An opening is what a contender has to know first.
type opening struct {
	Master   string `json:"master"`   // host:port
	Metadata string `json:"metadata"` // the metadata server's URL, or P2PHANDSHAKE
	// SharedMemory is the host:port of a mooncake_client to share memory with;
	// empty means that data goes over TCP.
	SharedMemory string `json:"shared_memory"`

	Model       string `json:"model"`
	PageTokens  int    `json:"page_tokens"`
	Pages       int    `json:"pages"`        // of a request
	SharedPages int    `json:"shared_pages"` // of them, in A and B
	PageBytes   int    `json:"page_bytes"`
	ObjectBytes int    `json:"object_bytes"`
	Seal        Seal   `json:"seal"`
	Key         []byte `json:"key,omitempty"` // of a MAC
}

// An answer comes back for each call.
type answer struct {
	Error         string            `json:"error,omitempty"`
	MS            float64           `json:"ms,omitempty"`
	Pages         int               `json:"pages,omitempty"`
	LoopbackBytes int64             `json:"loopback_bytes,omitempty"`
	HeldBytes     int64             `json:"held_bytes,omitempty"`
	Versions      map[string]string `json:"versions,omitempty"`
}

// A Seal is how pages prove what they are.
type Seal string

// The seals: see package page.
const (
	Checksum Seal = "checksum"
	MAC      Seal = "mac"
	NoSeal   Seal = "none"
)
