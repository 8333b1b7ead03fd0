package checks

// noSubnetManager is what to do about a port that no subnet manager has configured.
const noSubnetManager = "start a subnet manager in the fabric (opensm, or the switch's), or look why it does not reach this port: sminfo and ibstat say what they see"
