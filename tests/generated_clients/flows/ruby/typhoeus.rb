# In place of the gem that sends requests: to read replies, the client needs none.
