package checks

// xidClass is whose fault an Xid is.
type xidClass int

const (
	// xidUnlisted is an Xid that the catalogue does not have or does not explain.
	xidUnlisted xidClass = iota
	// xidJob: a program did something wrong; the GPU goes on.
	xidJob
	// xidWatch: the GPU goes on, and has lost something that it will need.
	xidWatch
	// xidReset: the GPU works wrongly until it is reset.
	xidReset
	// xidLink: NVLink, or what is at its other end.
	xidLink
	// xidBus: the GPU's place on the PCI bus, or its power.
	xidBus
)

type xid struct {
	class xidClass
	what  string
}

// xids are the Xids by number, after NVIDIA's catalogue (docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html), whose
// immediate action decides the class, and nverror.h of the open kernel modules.
var xids = map[int]xid{
	8:  {xidJob, "a channel did not go on in time"},
	11: {xidJob, "a program sent a command that is none"},
	13: {xidJob, "a program's kernel did what it must not, mostly beyond its memory"},
	25: {xidJob, "a program sent a command that is none"},
	31: {xidJob, "a program reached for memory that is not its own"},
	32: {xidJob, "a program's commands arrived broken"},
	39: {xidJob, "a copy engine's error"}, 40: {xidJob, "a copy engine's error"}, 41: {xidJob, "a copy engine's error"},
	43: {xidJob, "a program was ended after an error of its own"},
	44: {xidJob, "an error while programs were switched"},
	45: {xidJob, "a program's channels were taken down, as when it is killed"},
	46: {xidReset, "the GPU stopped"},
	48: {xidReset, "memory lost two bits of a word"},
	54: {xidBus, "the board's power cable is not connected"},
	62: {xidReset, "the power controller halted"},
	63: {xidWatch, "a row of memory will be replaced at the next reset"},
	64: {xidReset, "a broken row of memory could not be replaced"},
	66: {xidJob, "the driver reached where it must not"}, 67: {xidJob, "the driver reached where it must not"},
	69:  {xidJob, "a program sent a command that is none"},
	70:  {xidJob, "a copy engine's error"},
	71:  {xidJob, "a copy engine's error"},
	72:  {xidJob, "a copy engine's error"},
	74:  {xidLink, "an error of NVLink"},
	75:  {xidJob, "a copy engine's error"},
	76:  {xidJob, "a copy engine's error"},
	77:  {xidJob, "a copy engine's error"},
	79:  {xidBus, "the GPU has fallen off the bus"},
	80:  {xidBus, "commands were broken on their way over the bus"},
	85:  {xidJob, "a copy engine's error"},
	92:  {xidWatch, "memory corrects errors of one bit often"},
	93:  {xidWatch, "the board's InfoROM was written too often"},
	94:  {xidWatch, "memory lost data of one program, which was ended"},
	95:  {xidReset, "memory lost data, and nobody knows whose"},
	109: {xidReset, "a program could not be switched away"},
	110: {xidReset, "a security fault"},
	119: {xidReset, "the GPU's system processor (GSP) does not answer"},
	120: {xidReset, "the GPU's system processor (GSP) failed"},
	121: {xidWatch, "the link to the processor (C2C) corrected an error"},
	136: {xidLink, "a link of NVLink could not be trained"},
	137: {xidJob, "a program reached over NVLink for memory that is not its own, or its owner failed"},
	140: {xidReset, "memory lost data"},
	143: {xidReset, "the GPU could not be started"},
	144: {xidLink, "an error of NVLink"},
	145: {xidLink, "an error of NVLink"},
	146: {xidLink, "an error of NVLink"},
	147: {xidLink, "an error of NVLink"},
	148: {xidLink, "an error of NVLink"},
	149: {xidLink, "an error of NVLink"},
	150: {xidLink, "an error of NVLink"},
	155: {xidLink, "an error of NVLink"},
	156: {xidReset, "a unit of the GPU will be retired at the next reset"},
	157: {xidWatch, "a unit of the GPU could not be retired"},
	158: {xidReset, "the GPU stopped"},
	160: {xidWatch, "a channel of memory will be retired"},
	161: {xidWatch, "a channel of memory could not be retired"},
	164: {xidWatch, "the circuit that smooths power is nearly worn out"},
	165: {xidWatch, "the circuit that smooths power is worn out"},
	167: {xidBus, "the GPU does not answer on the bus"},
	168: {xidReset, "the GPU has less memory, after errors"},
	169: {xidReset, "a controller of the GPU halted"},
	171: {xidReset, "memory lost data"},
	172: {xidReset, "memory on the chip lost data"},
	173: {xidReset, "the link to the processor (C2C) failed"},
	176: {xidWatch, "the bus corrects errors often"},
}

// recoveryChanged is the Xid with which the driver says what a GPU needs to go on.
const recoveryChanged = 154
