"""Child processes of offers: started, fed, listened to and ended through the keeper."""
