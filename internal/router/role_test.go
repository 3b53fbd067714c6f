package router

// roleVariable makes the test binary act as another program.
const roleVariable = "ROUTER_TEST_ROLE"

func playRole() {}
