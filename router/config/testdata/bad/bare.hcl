server {} # ERROR: No upstream # ERROR: No model
